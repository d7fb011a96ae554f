"""A temporary folder that ends with its process, also where that was killed: the next process removes it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_LOCK = ".lock"


class OwnedFolder:
    """A new temporary folder, held by a lock of this process; those of ended processes are removed first.

    Args:
        prefix: Beginning of the names of such folders; no other kind of folder may have it.

    Attributes:
        path: The folder.
    """

    def __init__(self, prefix: str) -> None:
        for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            _remove_unowned(old)
        self._folder = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)


def _remove_unowned(folder: Path) -> None:
    """Removes a folder of this user whose process has ended; one without a lock is about to get it."""
    with contextlib.suppress(OSError):  # another user's, or another process removes it now
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
