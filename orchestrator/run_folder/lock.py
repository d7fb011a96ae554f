"""The lock of a run folder: one process writes, or several read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from orchestrator.run_folder.errors import RunBusyError, RunLockError

_LOOKS, _LOOK_SECONDS = 5, 0.02


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Keeps writers out of a run folder while it is read. Several may read.

    Raises:
        RunBusyError: If a process writes to it.
    """
    try:
        fd = os.open(path / ".lock", os.O_RDONLY)
    except FileNotFoundError:  # the folder has had no writer: a copy
        yield
        return
    try:
        _flock(fd, fcntl.LOCK_SH, path)
        yield
    finally:
        os.close(fd)


def is_written(path: Path) -> bool:
    """Returns whether a process writes to a run folder now."""
    try:
        with held(path):
            return False
    except RunBusyError:
        return True
    except OSError:  # not readable, or a file system without locks
        return False


class Lock:
    """Makes this process the only writer of a run folder; `close` releases the folder."""

    def __init__(self, file: Path, fd: int) -> None:
        self._file = file
        self._fd = fd
        self._state = os.fstat(fd)

    @property
    def stands(self) -> bool:
        """True if the locked file is still the one at its path, which others would lock."""
        try:
            return os.path.samestat(self._file.stat(), self._state)
        except OSError:
            return False

    def check(self) -> None:
        """Makes sure that no other process can have locked the folder meanwhile.

        Raises:
            RunLockError: If the lock's file was deleted, moved or replaced.
        """
        if not self.stands:
            raise RunLockError(
                f"{self._file} was deleted or replaced while this process wrote to the folder, and another may write "
                "there now: let no cleaner delete it, and run the same command again to resume"
            )

    def close(self) -> None:
        """Releases the folder."""
        os.close(self._fd)


def lock(path: Path, looks: int = _LOOKS) -> Lock:
    """Makes this process the only writer of a run folder, until the returned lock is closed.

    Args:
        path: The folder.
        looks: Attempts, 20 ms apart.

    Raises:
        RunBusyError: If another process writes to it.
    """
    while not (taken := _locked(path, looks)).stands:  # deleted between opening and locking
        taken.close()
    return taken


def _locked(path: Path, looks: int) -> Lock:
    fd = os.open(file := path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        for _ in range(looks):  # `is_written` may hold it for a moment
            with contextlib.suppress(RunBusyError):
                _flock(fd, fcntl.LOCK_EX, path)
                break
            time.sleep(_LOOK_SECONDS)
        else:
            _flock(fd, fcntl.LOCK_EX, path)
    except RunBusyError:
        os.close(fd)
        raise
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"pid {os.getpid()}".encode(), 0)
    return Lock(file, fd)


def _flock(fd: int, kind: int, path: Path) -> None:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
        raise RunBusyError(
            f"{path} is being written by another process ({holder}): wait for it, or give --run another folder"
        ) from None
