"""Addresses as they may be shown: in a manifest, a cache's key, an error, a line of a log."""

from __future__ import annotations

import logging
import re
from urllib.parse import unquote_plus

_SECRET = re.compile(r"pass|pwd|secret|token|key|sig|credential|auth", re.IGNORECASE)
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;]*)=([^&;]*)")
_MARK = re.compile(":/+")
"""What ends a URL's scheme, with one slash where `Path` has read the URL."""
_CLOSING = "'\")]}>.,:;"
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


def without_passwords(text: str) -> str:
    """Returns a text of words with no password left in any of its URLs, as `without_password` does for one word."""
    return re.sub(r"\S+", lambda word: _of_text(word[0]), text) if ":/" in text else text


def shown_place(word: str) -> str:
    """Returns a word that should name a place, also without user and password where no scheme stands before them."""
    if "://" in word:
        return without_password(word)
    before, _, after = word.rpartition("@")
    hidden = ":" in before and not after.startswith("sha256:")  # an image's digest
    return _PARAMETER.sub(_shown, f"{_HIDDEN}@{after}" if hidden else word)


def refused_user(target: str) -> str:
    """Returns why gRPC cannot be given an address, "" where it names neither user nor password.

    The reason repeats nothing that could be part of them.
    """
    _, at, place = target.rpartition("@")
    return (
        f"{_HIDDEN}@{_PARAMETER.sub(_shown, place)} names a user or password, which gRPC does not send: give host:port "
        "alone, and a token in a token file"
        if at
        else ""
    )


def keep_out_of_logs() -> None:
    """Quiets the HTTP libraries, which log the whole address of every request, its password too."""
    for library in ("httpx", "httpx2"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _of_text(word: str) -> str:
    """Returns a word of a text, which may have quotes and punctuation around a URL, without the URL's password."""
    mark = _MARK.search(word)
    if not mark:
        return word
    inner = word.rstrip(_CLOSING)
    shown = without_password(f"://{inner[mark.end() :]}").removeprefix("://")
    return word[: mark.end()] + shown + word[len(inner) :] if len(inner) > mark.end() else word


def _shown(parameter: re.Match[str]) -> str:
    name = parameter[1]
    return f"{name}={_HIDDEN}" if _SECRET.search(unquote_plus(name)) else parameter[0]
