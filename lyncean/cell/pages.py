"""Joins a process's memory into large pages: a fork copies one table entry for each page."""

from __future__ import annotations

import ctypes
from pathlib import Path

_LARGE = 2 << 20
"""Bytes of a large page on x86-64, and on arm64 with pages of 4 KiB."""
_COLLAPSE = 25
"""MADV_COLLAPSE, Linux 6.1; older kernels refuse it and nothing changes."""


def join_pages() -> None:
    """Joins the anonymous memory of this process into large pages where the kernel can."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in maps.read_text().splitlines():
        addresses, rights, _, _, file, *name = line.split(None, 5)
        if rights.startswith("rw") and file == "0" and (not name or name[0] == "[heap]"):
            start, end = (int(word, 16) for word in addresses.split("-"))
            for at in range(-(-start // _LARGE) * _LARGE, end - _LARGE + 1, _LARGE):
                madvise(at, _LARGE, _COLLAPSE)
