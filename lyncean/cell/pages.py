"""Joins a process's pages of memory to larger ones: a fork copies an entry for each, and its end frees it."""

from __future__ import annotations

import ctypes
from pathlib import Path

_LARGE = 2 << 20
"""Bytes of a large page of x86-64, and of arm64 with pages of 4 KiB."""
_COLLAPSE = 25
"""MADV_COLLAPSE of Linux 6.1; older kernels refuse it, and the pages stay as they are."""


def join_pages() -> None:
    """Joins the pages of this process's own memory where the system can."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in maps.read_text().splitlines():
        place, rights, _, _, file, *name = line.split(None, 5)
        if rights.startswith("rw") and file == "0" and (not name or name[0] == "[heap]"):
            start, end = (int(word, 16) for word in place.split("-"))
            for at in range(-(-start // _LARGE) * _LARGE, end - _LARGE + 1, _LARGE):
                madvise(at, _LARGE, _COLLAPSE)
