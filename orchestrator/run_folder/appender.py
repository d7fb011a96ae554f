"""An append-only file of whole lines, and the healing of its last one."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

from orchestrator.run_folder.errors import RunLockError, RunLogError, write_error
from orchestrator.run_folder.lines import DamagedLine, loads, sealed
from orchestrator.run_folder.lock import Lock
from orchestrator.run_folder.scanning import damaged


class Appender:
    """An append-only file of whole lines.

    `add` only collects; `flush` writes the collected lines with one system call. A line that
    cannot be written in full is taken back, so that the file always ends with a complete line.

    Args:
        path: The file.
        lock: The lock of its folder, without which nothing is written; None if no other process writes the file.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path, lock: Lock | None = None) -> None:
        self.path = path
        self._lock = lock
        self._lines: list[bytes] = []
        self._writing = threading.Lock()  # a thread syncs while the event loop writes and, in the end, closes
        self._fd = _open(path)
        self._end = os.fstat(self._fd).st_size
        self._written = self._end
        self._synced = -1  # lines of a killed process may not be on the disk yet
        self._broken: RunLogError | None = None

    @property
    def pending(self) -> int:
        """Lines that wait for `flush`."""
        return len(self._lines)

    @property
    def size(self) -> int:
        """Bytes that are written."""
        return self._written

    @property
    def broken(self) -> RunLogError | None:
        """Reason that nothing is written any more, if any."""
        return self._broken

    def add(self, line: bytes) -> int:
        """Collects a line without its newline and checksum, and returns the offset at which it will stand."""
        return self.add_sealed(sealed(line))

    def add_sealed(self, line: bytes) -> int:
        """Collects a line that has its checksum, and returns the offset at which it will stand."""
        offset = self._end
        self._lines.append(line)
        self._end += len(line) + 1
        return offset

    def flush(self, count: int | None = None) -> None:
        """Writes the collected lines, or the first `count` of them.

        Raises:
            RunWriteError: If the disk is full or gone, now or before; the lines collected are then lost, and
                their calls are made again on resume.
            RunLockError: If the folder's lock is lost; so are the lines then.
        """
        with self._writing:
            self._flush(count)

    def _flush(self, count: int | None) -> None:
        if self._broken:
            raise self._broken
        lines = self._lines[:count]
        if not lines:
            return
        data = b"\n".join(lines) + b"\n"
        try:
            if self._lock:  # no other process may append to the file: offsets would be wrong
                self._lock.check()
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
        except (OSError, RunLockError) as error:
            raise self._give_up(error) from error
        del self._lines[: len(lines)]
        self._written += len(data)

    def give_up(self, error: RunLogError) -> None:
        """Stops writing; each further write raises this error."""
        self._broken = self._broken or error
        self._lines.clear()
        self._end = self._written

    def _give_up(self, error: OSError | RunLockError) -> RunLogError:
        """Takes back a partial write and stops writing: no line after it would be complete."""
        self._broken = error if isinstance(error, RunLockError) else write_error(self.path, error)
        self._lines.clear()
        self._end = self._written
        if isinstance(error, OSError):
            with contextlib.suppress(OSError):  # the next process cuts off a torn last line
                os.ftruncate(self._fd, self._written)
        return self._broken

    def sync(self) -> None:
        """Makes what was flushed survive a power cut. May block for long: call it in a thread."""
        target = self._written
        if self._broken:
            raise self._broken
        if target != self._synced:
            try:
                os.fsync(self._fd)
            except OSError as error:
                # A second call would succeed: the system marks pages that it could not write as clean.
                self._broken = write_error(self.path, error)
                raise self._broken from error
            self._synced = target

    def read(self, offset: int) -> dict[str, Any]:
        """Returns the line at an offset.

        Raises:
            RunLogError: If it is damaged or missing.
        """
        if offset >= self._written:
            self.flush()
        chunk = b""
        while True:
            more = os.pread(self._fd, 1 << 16, offset + len(chunk))
            chunk += more
            end = chunk.find(b"\n")
            if end >= 0:
                try:
                    return loads(chunk[:end])
                except DamagedLine as error:
                    raise damaged(self.path, offset, error) from error
            if not more:
                raise RunLogError(f"{self.path}: nothing at byte {offset}; was the file changed from outside?")

    def check_there(self) -> None:
        """Makes sure that the file still stands at its path.

        Raises:
            RunLogError: If it was deleted, moved or replaced: further lines would be lost.
        """
        try:
            there = self.path.stat()
        except OSError:
            there = None
        if there is None or not os.path.samestat(there, os.fstat(self._fd)):
            raise RunLogError(
                f"{self.path} was deleted or replaced while the run went on: put the folder back, or run the command "
                "again to begin anew"
            )

    def truncate(self) -> None:
        """Empties the file."""
        self._lines.clear()
        os.ftruncate(self._fd, 0)
        self._end = self._written = self._synced = 0

    def close(self) -> None:
        """Writes the collected lines and closes the file."""
        try:
            if not self._broken:
                self.flush()
                self.sync()
        finally:
            # A disk that does not answer may hold a thread in its write for ever: that thread keeps the file.
            if self._writing.acquire(blocking=not self._broken):
                os.close(self._fd)
                self._writing.release()


def _open(path: Path) -> int:
    """Opens a log for appending and cuts off or completes a torn last line."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    size = os.fstat(fd).st_size
    start, tail = size, b""
    while start > 0 and b"\n" not in tail:
        step = min(1 << 16, start)
        start -= step
        tail = os.pread(fd, step, start) + tail
    torn = tail[tail.rfind(b"\n") + 1 :]
    if torn:
        try:
            loads(torn)
            os.write(fd, b"\n")
        except DamagedLine:
            os.ftruncate(fd, size - len(torn))
    return fd
