"""The harnesses' own code: kept off standard output and off other servers, its errors in one line."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from lyncean.cell import limit_of
from lyncean_harnesses.library import judge_url

LOADING = threading.RLock()
"""Held while foreign code is loaded, since loading changes global state."""

_OFFLINE = ("LocalEntryNotFoundError", "OfflineModeIsEnabled")
"""Errors of Hugging Face's libraries for a cache miss without network."""

_contacted: dict[int, list[str]] = {}
"""Thread that runs foreign code -> the servers that it contacted."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the prints of foreign code off standard output, which belongs to our commands."""
    with contextlib.redirect_stdout(_nowhere()):
        yield


@cache
def _nowhere() -> TextIO:
    """Returns a file that discards all writes; never closed, since foreign code may keep it as its standard output."""
    return Path(os.devnull).open("w")


@contextlib.contextmanager
def no_other_server() -> Iterator[None]:
    """Raises if a task's code contacts a server besides its judge and the hub: much code then silently scores 0.

    Raises:
        RuntimeError: It contacted another server; the message names it.
    """
    _audit()
    contacted: list[str] = []
    _contacted[threading.get_ident()] = contacted
    try:
        yield
    finally:
        del _contacted[threading.get_ident()]
        if contacted:
            refused = PermissionError(errno.EPERM, "no network")
            raise RuntimeError(f"it asks a server of its own ({contacted[0]}), which is not supported") from refused


@cache
def _audit() -> None:
    """Records the servers that foreign code looks up or connects to, in its thread or in a pool that it started."""

    def note(event: str, details: tuple[Any, ...]) -> None:
        if not _contacted or event not in ("socket.getaddrinfo", "socket.connect"):
            return
        address = details[0] if event == "socket.getaddrinfo" else details[1]
        host = ":".join(map(str, address[:2])) if isinstance(address, tuple) else str(address)
        judge = judge_url().removeprefix("http://").partition("/")[0]
        if "huggingface" in host or host in (judge, judge.partition(":")[0]):
            return
        contacted = _contacted.get(threading.get_ident())
        if contacted is None and threading.current_thread().name.startswith("ThreadPoolExecutor"):
            contacted = next(iter(_contacted.values()), None)
        if contacted is not None:
            contacted.append(host)

    sys.addaudithook(note)


def limit_met(error: BaseException) -> str:
    """Returns the limit of a cell that foreign code hit, "" if it failed for another reason; see `CellError`."""
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ in _OFFLINE:
            return "network"
        cause = cause.__cause__ or cause.__context__
    return limit_of(error)


def line(error: BaseException) -> str:
    """Returns an error in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
