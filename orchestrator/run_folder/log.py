"""The append-only logs of a run folder: whole lines, one writer, healed and indexed on resume."""

from __future__ import annotations

import contextlib
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, TypeAlias

from lyncean.arrays import NDArray, np
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run_folder.appender import Appender
from orchestrator.run_folder.durable import sync_folder
from orchestrator.run_folder.errors import RunLogError, RunWriteError, write_error
from orchestrator.run_folder.files import IMAGES, RESPONSES, VERDICTS
from orchestrator.run_folder.image_store import ImageStore
from orchestrator.run_folder.key_table import KeyTable, digests
from orchestrator.run_folder.lines import EndedLine, answers_of, checksums, of_answer, with_checksum
from orchestrator.run_folder.lock import lock
from orchestrator.run_folder.mistakes import of_configuration
from orchestrator.run_folder.scanning import Heads, heads, scan

Hashes: TypeAlias = "NDArray[np.void]"
"""The halves of keys' hashes and whether they are scored: fields `low`, `high` and `scored`."""

_OUTCOMES = tuple(Outcome)
_STATE, _PLANNED, _VERDICT = 0b11, 0b100, 0b111000
"""Flag bits of the key table: a `State`, whether this process has planned the key, and the outcome of its verdict."""


class State(IntEnum):
    """State of one call in the log."""

    NONE = 0
    ANSWERED = 1
    FAILED = 2
    """Infrastructure failed: sent again on resume."""
    ENDED = 3
    """An outcome without an answer, which another request would not change."""


class Entry(NamedTuple):
    """State of one key in the log.

    Attributes:
        state: State by `responses.jsonl`.
        offset: First byte of its line there; meaningless for State.NONE.
        verdict: The outcome in `verdicts.jsonl`, None without one.
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


_MOST_EXPECTED = 1 << 22
"""Room is made for so many expected keys at most, 160 MB: the number follows from first rows and may be far off."""

_STATES = tuple(State)
_ABSENT = Entry(State.NONE, 0, None, False)


class RunLog:
    """The two logs, the image store and the index of a run folder; held by one process at a time.

    Args:
        path: The folder.
        expected: Number of the run's items, if known: a table of millions that grows takes its memory twice.

    Raises:
        RunBusyError: If another process holds the folder.
        RunLogError: If a log is damaged before its last line.
    """

    def __init__(self, path: Path, expected: int = 0) -> None:
        self.path = path
        with contextlib.ExitStack() as opened:
            try:
                path.mkdir(parents=True, exist_ok=True)
                self._lock = lock(path)
                opened.callback(self._lock.close)
                # The file opened last is closed first: answers are written before their verdicts.
                self.verdicts = Appender(path / VERDICTS, self._lock)
                opened.callback(self.verdicts.close)
                self.responses = Appender(path / RESPONSES, self._lock)
                opened.callback(self.responses.close)
            except OSError as error:
                raise write_error(path, error) from error
            self.images = ImageStore(path / IMAGES)
            self._named = False
            self._index(expected)
            self._opened = opened.pop_all()

    def _index(self, expected: int) -> None:
        """Reads the logs into the key table."""
        self._table = KeyTable(max(min(expected, _MOST_EXPECTED), _line_count(self.path / RESPONSES)))
        self.resumed = 0
        for part in heads(self.path / RESPONSES):
            low, high = _halves(part)
            offsets, values = part.offsets.astype(np.uint64), _values(_STATES_OF, part)
            self._table.put_all(low, high, numbers=offsets, checks=checksums(part.lines), flags=values, mask=_STATE)
            self.resumed += len(part.keys)
        for part in heads(self.path / VERDICTS):
            self._note_verdicts(part)

    def _note_verdicts(self, part: Heads) -> None:
        """Notes verdicts; ignores those of an answer that is not the item's last."""
        low, high = _halves(part)
        named, answers = answers_of(part.lines)
        slots = self._table.find(low, high)
        values = np.where(named & (self._table.checks(slots) != answers), 0, _values(_VERDICTS_OF, part))
        self._table.put_all(low, high, flags=values.astype(np.uint8), mask=_VERDICT)

    @property
    def size(self) -> int:
        """Bytes of both logs that are written."""
        return self.responses.size + self.verdicts.size

    def entry(self, key: str) -> Entry:
        """Returns the state of a key."""
        return _entry(self._table.get(key))

    def plan(self, key: str) -> Entry:
        """Notes that this process has planned a key, and returns its earlier state."""
        return _entry(self._table.put(key, flags=_PLANNED, mask=_PLANNED))

    def settled(self, keys: Hashes, sizes: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
        """Notes the keys of complete strides as planned: strides of which no item is left to ask or score.

        Args:
            keys: The keys of all strides, one stride after the other: shape [keys].
            sizes: Number of keys of each stride: shape [strides].

        Returns:
            True for each stride that is over, shape [strides], and each key's outcome as a number (`outcome_of`): 0
            if it is not scored, or its stride is not over since a key of it is to be asked or scored still, or was
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
            strides = [
                self.settled(keys[end - size : end], np.array([size])) for end, size in zip(ends, sizes, strict=True)
            ]
            return np.concatenate([one[0] for one in strides]), np.concatenate([one[1] for one in strides])
        self._table.mark(slots[noted], _PLANNED)
        return over, np.where(noted & scored, verdict, 0).astype(np.uint8)

    def add_response(self, key: str, outcome: Outcome | None, line: bytes) -> int:
        """Appends a call's line and returns its offset; outcome None means that it has an answer."""
        line, check = with_checksum(line)
        offset = self.responses.add_sealed(line)
        self._table.put(key, number=offset, check=check, flags=_state(outcome), mask=_STATE | _VERDICT)
        return offset

    def add_call(self, line: bytes) -> int:
        """Appends the line of a call, or of a tool's result, which only a later process reads; returns its offset.

        The index does not hold it: a turn may take a thousand calls, and its answer has a line of its own.
        """
        return self.responses.add(line)

    def add_verdict(self, key: str, outcome: Outcome, line: bytes) -> None:
        """Appends an item's verdict; it is written once its answer would survive a power cut."""
        self.verdicts.add(self.of_answer(key, line))
        self._table.put(key, flags=_code(outcome) << 3, mask=_VERDICT)

    def of_answer(self, key: str, line: bytes) -> bytes:
        """Returns the line of an item's verdict with the checksum of the line of its answer."""
        answer = self._table.check(key)
        return of_answer(line, answer) if answer else line

    def forget_verdicts(self) -> None:
        """Empties `verdicts.jsonl`: every answer is scored anew."""
        self._table.unset(_VERDICT)
        self.verdicts.truncate()

    def forget_rejected(self) -> None:
        """Treats rejected requests as unsent: they are sent again, and their last line counts."""
        for outcome in (None, Outcome.REJECTED):  # a turn that only prepares another has no verdict
            self._table.clear(State.ENDED | _code(outcome) << 3, _STATE | _VERDICT)

    def forget_mistakes(self) -> None:
        """Treats requests that a mistake of configuration had rejected as unsent, with their samples' later turns.

        Raises:
            RunLogError: If a line is damaged.
        """
        if not self._table.any(State.ENDED | _code(Outcome.REJECTED) << 3, _STATE | _VERDICT):
            return
        wrong: set[str] = set()
        keys: list[tuple[str, str]] = []
        for offset, line in scan(self.path / RESPONSES, EndedLine):
            if line.outcome == Outcome.REJECTED and self.entry(line.key)[:2] == (State.ENDED, offset):
                keys.append((line.key, line.sample))
                if of_configuration(line.error):
                    wrong.add(line.sample)
        for key, sample in keys:
            if sample in wrong:
                self._table.put(key, flags=State.NONE, mask=_STATE | _VERDICT)

    def forget_index(self) -> None:
        """Frees the index's memory; keys can no longer be looked up or added."""
        self._table = KeyTable()

    def flush(self) -> None:
        """Writes the collected answers. Verdicts wait for `sync`: none is to outlive its answer.

        Raises:
            RunWriteError: If the disk is full or gone.
            RunLockError: If the lock is lost.
        """
        self.responses.flush()

    def sync(self) -> None:
        """Makes the collected lines survive a power cut, answers before verdicts.

        Raises:
            RunLogError: If a log is missing or cannot be written, or the lock is lost.
        """
        verdicts = self.begin_sync()
        self.check_there()
        self.sync_answers()
        self.write_verdicts(verdicts)
        self.sync_verdicts()

    def begin_sync(self) -> int:
        """Writes the collected answers; returns the number of verdicts that may be written after `sync_answers`.

        Raises:
            RunWriteError: If the disk is full or gone.
            RunLockError: If the lock is lost.
        """
        self.responses.flush()
        return self.verdicts.pending

    def check_there(self) -> None:
        """Makes sure that the folder is still this process's.

        Raises:
            RunLogError: If a log or the lock was deleted, moved or replaced: another process may write there now.
        """
        for log in (self.responses, self.verdicts):
            log.check_there()
        self._lock.check()

    def sync_answers(self) -> None:
        """Makes answers that were written, and images, survive a power cut. May block for long: call it in a thread.

        Raises:
            RunLogError: If a log cannot be written.
        """
        try:
            self.images.sync()
            if not self._named:
                sync_folder(self.path)
                sync_folder(self.path.parent)
                self._named = True
        except OSError as error:
            raise write_error(self.path, error) from error
        self.responses.sync()

    def write_verdicts(self, count: int) -> None:
        """Writes the first of the collected verdicts.

        Raises:
            RunWriteError: If the disk is full or gone.
            RunLockError: If the lock is lost.
        """
        self.verdicts.flush(count)

    def sync_verdicts(self) -> None:
        """Makes the verdicts that were written survive a power cut. May block for long: call it in a thread.

        Raises:
            RunLogError: If the log cannot be written, or the lock is lost.
        """
        self.verdicts.sync()
        self._lock.check()

    def give_up(self, why: str) -> RunLogError:
        """Stops writing; returns the error of further writes."""
        error = RunWriteError(f"{self.path}: {why}; what is on the disk is safe: run the command again to resume")
        for log in (self.responses, self.verdicts):
            log.give_up(error)
        return error

    def close(self) -> None:
        """Writes the collected lines, closes the logs and releases the folder. No verdict outlives its answer."""
        with self._opened:
            try:
                if not self.responses.broken:
                    self.responses.flush()
                    self.responses.sync()
            finally:
                if broken := self.responses.broken:
                    self.verdicts.give_up(broken)


def _halves(part: Heads) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    hashes = digests(part.keys)
    return hashes[:, 0], hashes[:, 1]


def _values(flags: dict[Outcome | None, int], part: Heads) -> NDArray[np.uint8]:
    return np.fromiter(map(flags.__getitem__, part.outcomes), np.uint8, len(part.keys))


def _entry(row: tuple[int, int] | None) -> Entry:
    if row is None:
        return _ABSENT
    number, flags = row
    verdict = _OUTCOMES[(flags >> 3 & 7) - 1] if flags >> 3 & 7 else None
    return Entry(_STATES[flags & 3], number, verdict, bool(flags & 4))


def outcome_of(number: int) -> Outcome:
    """Returns the outcome of a number that `RunLog.settled` returned; 0 stands for none."""
    return _OUTCOMES[number - 1]


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
