"""The append-only logs of a run folder: whole lines, one writer, healed and indexed on resume."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

from lyncean.arrays import NDArray, np
from lyncean.errors import UserError
from lyncean.outcomes import Outcome
from orchestrator.run_folder.files import IMAGES, LABELS, RESPONSES, VERDICTS
from orchestrator.run_folder.image_store import ImageStore
from orchestrator.run_folder.key_table import KeyTable, digests
from orchestrator.run_folder.lines import DamagedLine, Head, decode, heads_of, loads, sealed
from orchestrator.run_folder.saved_keys import Covered, Prefix, load, save

Hashes: TypeAlias = "NDArray[np.void]"
"""The halves of keys' hashes and whether they are scored: fields `low`, `high` and `scored`."""

_OUTCOMES = tuple(Outcome)
T = TypeVar("T")
_LOOKS, _LOOK_SECONDS = 5, 0.02
_READ = 1 << 20
_STATE, _PLANNED, _VERDICT = 0b11, 0b100, 0b111000
"""Flag bits of the key table: a `State`, whether this process has planned the key, and the outcome of its verdict."""

_UNSAVED = 1 << 16
"""Lines that are read again at a resume rather than saved: some tenths of a second."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class RunLogError(UserError):
    """The run folder cannot be used as it is. The message says what to do."""


class RunBusyError(RunLogError):
    """Another process writes to the run folder."""

    exit_code = 3


class RunWriteError(RunLogError):
    """The run folder cannot be written, for example because the disk is full. Resume later."""

    exit_code = 3


class State(IntEnum):
    """What the log holds of one call."""

    NONE = 0
    ANSWERED = 1
    FAILED = 2
    """Infrastructure failed: asked again on resume."""
    ENDED = 3
    """An outcome without an answer, which asking again would not change."""


class Entry(NamedTuple):
    """What is known of one key.

    Attributes:
        state: What `responses.jsonl` holds.
        offset: Where its line begins there; meaningless for State.NONE.
        verdict: The outcome in `verdicts.jsonl`, None if there is none.
        planned: Whether this process has planned it.
    """

    state: State
    offset: int
    verdict: Outcome | None
    planned: bool

    @property
    def settled(self) -> Outcome | None:
        """The verdict, if it is on the line in `responses.jsonl`: one of "failed" may be on an older line."""
        if self.state is State.NONE or (self.verdict is Outcome.FAILED) is not (self.state is State.FAILED):
            return None
        return self.verdict


_STATES = tuple(State)
_ABSENT = Entry(State.NONE, 0, None, False)


class Appender:
    """An append-only file of whole lines.

    `add` only collects; `flush` writes what was collected with one system call. Whatever
    cannot be written whole is taken back, so that the file always ends with a whole line.

    Attributes:
        path: The file.
        crc: The CRC-32 of all that is written, where the opener has set that of what was there.
        lost: Whether lines that were collected could not be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.crc = 0
        self.lost = False
        self._lines: list[bytes] = []
        self._fd = _open(path)
        self._end = os.fstat(self._fd).st_size
        self._written = self._end
        self._synced = self._end

    @property
    def pending(self) -> bool:
        """Whether lines wait for `flush`."""
        return bool(self._lines)

    @property
    def prefix(self) -> Prefix:
        """What is written."""
        return Prefix(self._written, self.crc)

    def add(self, line: bytes) -> int:
        """Collects a line without its newline and checksum, and returns the offset at which it will stand."""
        offset, line = self._end, sealed(line)
        self._lines.append(line)
        self._end += len(line) + 1
        return offset

    def flush(self) -> None:
        """Writes what was collected.

        Raises:
            RunWriteError: If the disk is full or gone; the lines collected are then lost, and
                the calls behind them are made again on resume.
        """
        if not self._lines:
            return
        data = b"\n".join(self._lines) + b"\n"
        self._lines.clear()
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            os.ftruncate(self._fd, self._written)
            self._end = self._written
            self.lost = True
            raise write_error(self.path, error) from error
        self._written = self._end
        self.crc = crc32(data, self.crc)

    def sync(self) -> None:
        """Makes what was flushed survive a power cut. May block for long: call it in a thread."""
        target = self._written
        if target != self._synced:
            try:
                os.fsync(self._fd)
            except OSError as error:
                raise write_error(self.path, error) from error
            self._synced = target

    def read(self, offset: int) -> dict[str, Any]:
        """Returns the line at an offset.

        Raises:
            RunLogError: If it is damaged, or there is none.
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
            RunLogError: If it was deleted, moved or replaced: what is written would be lost.
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
        self._end = self._written = self._synced = self.crc = 0

    def close(self) -> None:
        """Writes what was collected and closes the file."""
        try:
            self.flush()
            self.sync()
        finally:
            os.close(self._fd)


class RunLog:
    """The two logs, the image store and the index of a run folder; held by one process at a time.

    Raises:
        RunBusyError: If another process holds the folder.
        RunLogError: If a log is damaged before its last line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with contextlib.ExitStack() as opened:
            try:
                path.mkdir(parents=True, exist_ok=True)
                opened.callback(os.close, lock(path))
                # What is opened last is closed first: answers are written before their verdicts.
                self.verdicts = Appender(path / VERDICTS)
                opened.callback(self.verdicts.close)
                self.responses = Appender(path / RESPONSES)
                opened.callback(self.responses.close)
            except OSError as error:
                raise write_error(path, error) from error
            self.images = ImageStore(path / IMAGES)
            self._index()
            self._opened = opened.pop_all()

    def _index(self) -> None:
        """Reads the logs into the key table, from where its copy ends if one fits."""
        lines = _line_count(self.path / RESPONSES)
        covered, self._table = load(self.path, lines) or (Covered(), KeyTable(lines))
        self.resumed, self._unsaved = covered.lines, 0
        self.responses.crc, self.verdicts.crc = covered.responses.crc, covered.verdicts.crc
        for part in heads(self.path / RESPONSES, covered.responses.size):
            self._note(part, _STATES_OF, _STATE, part.offsets.astype(np.uint64))
            self.responses.crc = crc32(part.data, self.responses.crc)
            self.resumed += len(part.keys)
        for part in heads(self.path / VERDICTS, covered.verdicts.size):
            self._note(part, _VERDICTS_OF, _VERDICT)
            self.verdicts.crc = crc32(part.data, self.verdicts.crc)
        self._lines = self.resumed
        self._save_if_due()

    def _note(
        self, part: Heads, flags: dict[Outcome | None, int], mask: int, numbers: NDArray[np.uint64] | None = None
    ) -> None:
        hashes = digests(part.keys)
        values = np.fromiter(map(flags.__getitem__, part.outcomes), np.uint8, len(part.keys))
        self._table.put_all(hashes[:, 0], hashes[:, 1], numbers=numbers, flags=values, mask=mask)
        self._unsaved += len(part.keys)

    def _save_if_due(self) -> None:
        """Saves the key table once the lines behind its copy are a quarter of its keys, so that copies stay rare."""
        if self._unsaved < max(_UNSAVED, len(self._table) // 4) or self.responses.lost or self.verdicts.lost:
            return
        covered = Covered(self._lines, self.responses.prefix, self.verdicts.prefix)
        save(self.path, covered, self._table, _STATE | _VERDICT)
        self._unsaved = 0

    def entry(self, key: str) -> Entry:
        """Returns what is known of a key."""
        return _entry(self._table.get(key))

    def plan(self, key: str) -> Entry:
        """Notes that this process has planned a key, and returns what was known of it before."""
        return _entry(self._table.put(key, flags=_PLANNED, mask=_PLANNED))

    def settled(self, keys: Hashes, sizes: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
        """Notes that the keys of some strides are planned, as far as nothing is left to do for any of a stride's.

        Args:
            keys: The keys of all strides, one stride behind the other: shape [keys].
            sizes: How many of them each stride has: shape [strides].

        Returns:
            Whether a stride is over, shape [strides], and for each key the number of its outcome (`outcome_of`): 0
            where it is not scored, or its stride is not over since a key of it is to be asked or scored still, or was
            planned before; then nothing of the stride is noted.
        """
        slots = self._table.find(keys["low"], keys["high"])
        flags = self._table.flags(slots)
        state, verdict, scored = flags & _STATE, flags >> 3 & 7, keys["scored"] != 0
        read = ~scored | ((verdict != 0) & (verdict != _code(Outcome.FAILED)))
        done = (flags & _PLANNED == 0) & (state != State.NONE) & (state != State.FAILED) & read
        undone = np.concatenate([[0], np.cumsum(~done)])
        ends = np.cumsum(sizes)
        over = undone[ends] == undone[ends - sizes]
        noted = np.repeat(over, sizes)
        if len(sizes) > 1 and len(np.unique(slots[noted])) < np.count_nonzero(noted):
            # Two strides hold one key, so that the second is not over: one by one.
            each = [
                self.settled(keys[end - size : end], np.array([size])) for end, size in zip(ends, sizes, strict=True)
            ]
            return np.concatenate([one[0] for one in each]), np.concatenate([one[1] for one in each])
        self._table.mark(slots[noted], _PLANNED)
        return over, np.where(noted & scored, verdict, 0).astype(np.uint8)

    def add_response(self, key: str, outcome: Outcome | None, line: bytes) -> int:
        """Appends a call's line and returns its offset; outcome None means that it has an answer."""
        offset = self.responses.add(line)
        self._table.put(key, number=offset, flags=_state(outcome), mask=_STATE)
        self._lines += 1
        self._unsaved += 1
        return offset

    def add_verdict(self, key: str, outcome: Outcome, line: bytes) -> None:
        """Appends an item's verdict."""
        self.verdicts.add(line)
        self._table.put(key, flags=_code(outcome) << 3, mask=_VERDICT)
        self._unsaved += 1

    def forget_verdicts(self) -> None:
        """Empties `verdicts.jsonl`: every answer is scored anew."""
        self._table.unset(_VERDICT)
        self.verdicts.truncate()
        self._unsaved = len(self._table)  # the copy holds for these verdicts no longer

    def forget_index(self) -> None:
        """Gives the index's memory back; nothing can be looked up or added any more."""
        self._table, self._unsaved = KeyTable(), 0

    def flush(self) -> None:
        """Writes what was collected, answers before verdicts."""
        self.responses.flush()
        self.verdicts.flush()
        self._save_if_due()

    def sync(self) -> None:
        """Makes what was flushed survive a power cut.

        Raises:
            RunLogError: If a log is no longer there.
        """
        for log in (self.responses, self.verdicts):
            log.check_there()
            log.sync()

    def close(self) -> None:
        """Closes the logs and lets the folder go."""
        self._opened.close()


def scan(path: Path, kind: type[T]) -> Iterator[tuple[int, T]]:
    """Yields where each whole line of a log begins, and the line as a type of `lines`.

    A file that is missing has no line, and a torn last line is passed over.

    Raises:
        RunLogError: If a line is damaged.
    """
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for text in file:
            if not text.endswith(b"\n"):
                return
            try:
                line = decode(text, kind)
            except DamagedLine as error:
                raise damaged(path, offset, error) from error
            yield offset, line
            offset += len(text)


class Heads(NamedTuple):
    """Heads of some lines that follow each other in a log.

    Attributes:
        data: The lines.
        offsets: Where each begins: shape [lines].
        keys: Their keys in UTF-8.
        outcomes: Their outcomes.
    """

    data: bytes
    offsets: NDArray[np.int64]
    keys: list[bytes]
    outcomes: list[Outcome | None]


def heads(path: Path, start: int = 0) -> Iterator[Heads]:
    """Yields the heads of a log's whole lines from a line's start on, some thousands at a time and sooner than `scan`.

    Raises:
        RunLogError: If a line is damaged.
    """
    if not path.exists():
        return
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        rest = b""
        while chunk := file.read(_READ):
            data = rest + chunk
            end = data.rfind(b"\n") + 1
            data, rest = data[:end], data[end:]
            if not end:
                continue
            lines = data.split(b"\n")
            del lines[-1]
            ends = start + np.cumsum([len(line) + 1 for line in lines])
            offsets = np.append(start, ends[:-1])
            try:
                keys, outcomes = heads_of(lines)
            except DamagedLine:
                _name_damaged(path, lines, offsets)
                raise
            yield Heads(data, offsets, keys, outcomes)
            start += end


def _name_damaged(path: Path, lines: Iterable[bytes], offsets: Iterable[int]) -> None:
    for line, offset in zip(lines, offsets, strict=True):
        try:
            decode(line, Head)
        except DamagedLine as error:
            raise damaged(path, int(offset), error) from error


def lines_at(path: Path, offsets: Iterable[int], kind: type[T]) -> Iterator[T]:
    """Yields the lines of a log that begin at some offsets, as a type of `lines`.

    Raises:
        RunLogError: If a line is damaged.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise RunLogError(f"{path} cannot be read ({error.strerror}): restore it, or run the command again") from error
    with file:
        for offset in offsets:
            file.seek(int(offset))
            try:
                yield decode(file.readline(), kind)
            except DamagedLine as error:
                raise damaged(path, int(offset), error) from error


def damaged(path: Path, offset: int, error: Exception) -> RunLogError:
    """Returns the one-line error for a line whose head is whole and whose rest is not what was written."""
    number = 1
    with path.open("rb") as file:
        while offset and (data := file.read(min(offset, _READ))):
            number += data.count(b"\n")
            offset -= len(data)
    fix = "delete the line and run the command that made the run again: what it held is asked or scored anew"
    if path.name == LABELS:
        fix = "delete the line and give that label again"
    return RunLogError(f"{path}, line {number}: damaged ({error}); {fix}")


def _entry(found: tuple[int, int] | None) -> Entry:
    if found is None:
        return _ABSENT
    number, flags = found
    verdict = _OUTCOMES[(flags >> 3 & 7) - 1] if flags >> 3 & 7 else None
    return Entry(_STATES[flags & 3], number, verdict, bool(flags & 4))


def outcome_of(number: int) -> Outcome:
    """Returns the outcome of a number that `RunLog.settled` returned; 0 stands for none."""
    return _OUTCOMES[number - 1]


def write_error(path: Path, error: OSError) -> RunWriteError:
    """Returns the one-line error for a failed write."""
    if error.errno in _FULL:
        return RunWriteError(
            f"{path}: {error.strerror}; what was answered is safe: make room and run the command again"
        )
    return RunWriteError(f"{path} cannot be written: {error.strerror}; fix that and run the command again")


def _line_count(path: Path) -> int:
    """Returns about how many lines a file has, judged by the first megabyte."""
    with path.open("rb") as file:
        head = file.read(1 << 20)
    return head.count(b"\n") * path.stat().st_size // max(1, len(head))


def _state(outcome: Outcome | None) -> State:
    if outcome is None:
        return State.ANSWERED
    return State.FAILED if outcome is Outcome.FAILED else State.ENDED


def _code(outcome: Outcome | None) -> int:
    return _OUTCOMES.index(outcome) + 1 if outcome else 0


_STATES_OF: dict[Outcome | None, int] = {outcome: _state(outcome) for outcome in (None, *Outcome)}
_VERDICTS_OF: dict[Outcome | None, int] = {outcome: _code(outcome) << 3 for outcome in (None, *Outcome)}


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


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Keeps writers out of a run folder while it is read. Several may read.

    Raises:
        RunBusyError: If a process writes to it.
    """
    try:
        fd = os.open(path / ".lock", os.O_RDONLY)
    except FileNotFoundError:  # nobody ever wrote here: a copy
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


def lock(path: Path, looks: int = _LOOKS) -> int:
    """Makes this process the one that writes to a run folder, until the file descriptor returned is closed.

    Args:
        path: The folder.
        looks: How often it is tried, 20 ms apart.

    Raises:
        RunBusyError: If another process writes to it.
    """
    fd = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
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
    return fd


def _flock(fd: int, kind: int, path: Path) -> None:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
        raise RunBusyError(
            f"{path} is being written by another process ({holder}): wait for it, or give --run another folder"
        ) from None
