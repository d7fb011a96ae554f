"""Digests of large files, kept from one command to the next, and believed as git believes its index."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from lyncean.caches import cache_folder

WORTH_BYTES = 16 << 20
"""Smaller files are hashed each time: in a hundredth of a second."""

SETTLED_SECONDS = 5.0
"""How long a file must have been left alone: clocks of file systems tick as slowly as every two seconds."""


def remembered(path: Path, digest: Callable[[Path], str]) -> str:
    """Returns a file's digest, from an earlier command where the file has not been touched since.

    What stands for the file is its device, inode, size, time of modification and time of change; the last one
    changes with every write, and no program can set it back. Digests lie in `$XDG_CACHE_HOME/lyncean/digests`
    (`~/.cache/lyncean/digests`), which may be deleted at any time; where nothing can be written, nothing is kept.

    Args:
        path: The file.
        digest: Computes it: the sha256 of the content, in hex.
    """
    before = path.stat()
    if before.st_size < WORTH_BYTES:
        return digest(path)
    place = cache_folder() / "digests" / _name(before)
    with contextlib.suppress(OSError):
        kept = place.read_text()
        if re.fullmatch(r"[0-9a-f]{64}", kept):
            return kept
    started = time.time()
    found = digest(path)
    if started - max(before.st_mtime, before.st_ctime) > SETTLED_SECONDS and _name(path.stat()) == place.name:
        with contextlib.suppress(OSError):
            _keep(place, found)
    return found


def _name(stat: os.stat_result) -> str:
    words = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return hashlib.sha256(repr(words).encode()).hexdigest()


def _keep(place: Path, digest: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_suffix(f".{os.getpid()}")
    partial.write_text(digest)
    partial.replace(place)
