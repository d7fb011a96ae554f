"""Addresses without secrets, for manifests, cache keys, errors and logs."""

from __future__ import annotations

import logging
import re
from urllib.parse import unquote_plus

_SECRET = re.compile(r"pass|pwd|secret|token|key|sig|credential|auth", re.IGNORECASE)
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;]*)=([^&;]*)")
_MARK = re.compile(":/+")
"""End of a URL's scheme; `Path` collapses its two slashes to one."""
_CLOSING = "'\")]}>.,:;"
_HIDDEN = "***"


def without_password(word: str) -> str:
    """Hides user, password and secret query parameters of a URL in a word, with any characters in them.

    Secret parameters keep their names. If an "@" may belong to a password or to a parameter, both are hidden.
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


def without_passwords(text: str) -> str:
    """Hides the secrets of all URLs in a text, as `without_password` does for one word."""
    return re.sub(r"\S+", lambda word: _of_text(word[0]), text) if ":/" in text else text


def shown_place(word: str) -> str:
    """Hides the secrets of an address, also one without a scheme."""
    if "://" in word:
        return without_password(word)
    before, _, after = word.rpartition("@")
    hidden = ":" in before and not after.startswith("sha256:")  # digest of a container image
    return _PARAMETER.sub(_shown, f"{_HIDDEN}@{after}" if hidden else word)


def refused_user(target: str) -> str:
    """Returns an error message for an address with a user or password, "" for others.

    The message repeats nothing that may be part of them.
    """
    _, at, address = target.rpartition("@")
    return (
        f"{_HIDDEN}@{_PARAMETER.sub(_shown, address)} names a user or password, which gRPC does not send: give "
        "host:port alone, and a token in a token file"
        if at
        else ""
    )


def keep_out_of_logs() -> None:
    """Silences the HTTP libraries, which log the full URL of every request, password included."""
    for library in ("httpx", "httpx2"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _of_text(word: str) -> str:
    """Hides the secrets of a URL that may be surrounded by quotes and punctuation."""
    mark = _MARK.search(word)
    if not mark:
        return word
    inner = word.rstrip(_CLOSING)
    shown = without_password(f"://{inner[mark.end() :]}").removeprefix("://")
    return word[: mark.end()] + shown + word[len(inner) :] if len(inner) > mark.end() else word


def _shown(parameter: re.Match[str]) -> str:
    name = parameter[1]
    return f"{name}={_HIDDEN}" if _SECRET.search(unquote_plus(name)) else parameter[0]
