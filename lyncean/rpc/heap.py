"""What a process does with memory that messages have left."""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 128 << 20
_MAPPED_BYTES = 32 << 20
"""The most that every glibc accepts."""
_RETURNED_BYTES = 1 << 19


def keep_freed_memory() -> None:
    """Has glibc keep up to 128 MiB of freed memory for the next message instead of giving it back.

    A buffer of the size of an image is mapped and let go again for every copy that is made of it otherwise,
    and the kernel clears its pages each time. Other C libraries and a user's own MALLOC_ settings are left as
    they are.
    """
    _set(_KEPT_BYTES, _MAPPED_BYTES)


def return_freed_memory() -> None:
    """Has glibc give freed memory back: what is free now, and each array of half a megabyte or more as it is freed.

    Without it glibc keeps arrays of up to 32 MiB once one of them was freed.
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
