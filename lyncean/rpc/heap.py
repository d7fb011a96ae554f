"""Settings of glibc for memory that messages have freed."""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 128 << 20
_MAPPED_BYTES = 32 << 20
"""The largest value that every glibc accepts."""
_RETURNED_BYTES = 1 << 19


def keep_freed_memory() -> None:
    """Makes glibc keep up to 128 MiB of freed memory for the next message instead of returning it.

    By default every copy of an image's bytes maps a new buffer, whose pages the kernel clears each time. Other C
    libraries and a user's own MALLOC_ settings are left alone.
    """
    _set(_KEPT_BYTES, _MAPPED_BYTES)


def return_freed_memory() -> None:
    """Makes glibc return freed memory: all that is free now, and later each array of half a megabyte or more.

    By default glibc keeps arrays of up to 32 MiB once it has freed one of that size.
    """
    if _set(_RETURNED_BYTES, _RETURNED_BYTES):
        ctypes.CDLL(None).malloc_trim(0)


def _set(trimmed: int, mapped: int) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    mallopt(_M_TRIM_THRESHOLD, trimmed)
    mallopt(_M_MMAP_THRESHOLD, mapped)
    return True
