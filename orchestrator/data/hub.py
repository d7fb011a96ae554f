"""Checks early, and once, that the hub can be reached."""

from __future__ import annotations

import contextlib
import importlib
import re

from orchestrator.data.rows import DataError

ELSEWHERE = (
    "`orchestrator fetch --task TASK --to DIR` fetches it where there is a network, and `--data DIR` reads it; "
    "`--synthetic` needs no data at all"
)
"""Advice for machines without access to the hub."""

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
"""A data set of the hub, "owner/name" or "owner/name@revision"."""

_SECONDS = 10.0
_CONNECT_SECONDS = 3.0
"""Timeout of connecting: a firewall may drop packets silently."""


def failures() -> tuple[type[Exception], ...]:
    """Returns the exceptions of the hub's client: its own and those of its HTTP library, a new one since version 2."""
    from huggingface_hub.errors import HfHubHTTPError

    errors = [OSError, ValueError, HfHubHTTPError]
    for name in ("httpx", "httpx2"):
        with contextlib.suppress(ImportError):
            errors.append(importlib.import_module(name).HTTPError)
    return tuple(errors)


def cause(error: Exception) -> str:
    """Returns the first line of an error's message, or else its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def reach(purpose: str) -> None:
    """Checks that the hub replies, unless HF_HUB_OFFLINE is set: its own client tries for half a minute.

    Raises:
        DataError: It does not; the message begins with `purpose`.
    """
    import httpx
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return
    try:
        httpx.head(constants.ENDPOINT, timeout=httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS))
    except httpx.TransportError as error:
        raise DataError(
            f"{purpose}: the hub at {constants.ENDPOINT} cannot be reached ({cause(error)}); {ELSEWHERE}; "
            "with HF_HUB_OFFLINE=1 in the environment an earlier download is used"
        ) from error
