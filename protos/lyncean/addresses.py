"""Addresses as they may be shown: in a manifest, a cache's key, a line of a log."""

from __future__ import annotations

import logging
import re
from urllib.parse import unquote_plus

_SECRET = re.compile(r"pass|pwd|secret|token|key|sig|credential|auth", re.IGNORECASE)
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;]*)=([^&;]*)")
_HIDDEN = "***"


def without_password(word: str) -> str:
    """Returns a word with nothing left of what a URL in it says of user and password, whatever stands in them.

    Parameters whose names speak of a secret keep their names. Where it cannot be told whether an "@" stands in a
    password or in a parameter, what could be either is hidden.
    """
    head, mark, rest = word.partition("://")
    if not mark:
        return word
    before, at, after = rest.rpartition("@")
    if at and "?" in before:
        end = re.search("[&;]", after)
        rest = _HIDDEN + (after[end.start() :] if end else "")
    elif at:
        rest = f"{_HIDDEN}@{after}"
    return head + mark + _PARAMETER.sub(_shown, rest)


def keep_out_of_logs() -> None:
    """Quiets the HTTP libraries, which log the whole address of every request, its password too."""
    for library in ("httpx", "httpx2"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _shown(parameter: re.Match[str]) -> str:
    name = parameter[1]
    return f"{name}={_HIDDEN}" if _SECRET.search(unquote_plus(name)) else parameter[0]
