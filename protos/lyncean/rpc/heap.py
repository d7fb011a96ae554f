"""What a process does with memory that messages have left."""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 128 << 20
_MAPPED_BYTES = 32 << 20
"""The most that every glibc accepts."""


def keep_freed_memory() -> None:
    """Has glibc keep up to 128 MiB of freed memory for the next message instead of giving it back.

    A buffer of the size of an image is mapped and let go again for every copy that is made of it otherwise,
    and the kernel clears its pages each time. Other C libraries and a user's own MALLOC_ settings are left as
    they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt and not any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
