"""Whether the hub can be reached, asked once and soon."""

from __future__ import annotations

import contextlib
import importlib
import re

from orchestrator.data.rows import DataError

ELSEWHERE = (
    "`orchestrator fetch --task TASK --to DIR` fetches it where there is a network, and `--data DIR` reads it; "
    "`--synthetic` needs no data at all"
)
"""What to do without the hub, in words."""

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
"""A data set of the hub, "owner/name" or "owner/name@revision"."""

_SECONDS = 10.0
_CONNECT_SECONDS = 3.0
"""For a connection: where a firewall swallows it, nothing comes back at all."""


def failures() -> tuple[type[Exception], ...]:
    """Returns what the hub's client raises: its own errors and its HTTP library's, another one since version 2."""
    from huggingface_hub.errors import HfHubHTTPError

    found = [OSError, ValueError, HfHubHTTPError]
    for name in ("httpx", "httpx2"):
        with contextlib.suppress(ImportError):
            found.append(importlib.import_module(name).HTTPError)
    return tuple(found)


def reach(what: str) -> None:
    """Asks the hub for a sign of life: left to itself its client tries for half a minute.

    Nothing is asked where HF_HUB_OFFLINE says that there is no network.

    Args:
        what: What is wanted of it, for the message.

    Raises:
        DataError: There is no sign.
    """
    import httpx
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return
    try:
        httpx.head(constants.ENDPOINT, timeout=httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS))
    except httpx.TransportError as error:
        cause = str(error) or type(error).__name__
        raise DataError(
            f"{what}: the hub at {constants.ENDPOINT} cannot be reached ({cause}); {ELSEWHERE}; "
            "with HF_HUB_OFFLINE=1 in the environment an earlier download is used"
        ) from error
