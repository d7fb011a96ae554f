"""The index of a run's logs: some forty bytes an item, independent of the length of lines and keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from lyncean.arrays import NDArray, np
from lyncean.columns import Column, mapped
from lyncean.rpc.heap import return_freed_memory
from orchestrator.run_folder.files import BEYOND, RESPONSES, VERDICTS, log_bytes
from orchestrator.run_folder.key_table import digests
from orchestrator.run_folder.part import read as read_part
from orchestrator.run_folder.scanning import heads

Offsets: TypeAlias = "NDArray[np.signedinteger[Any]]"

_DIGITS = re.compile(r"(\d+)")
_LONGEST = 0xFFFF
_SHORT = 64
_TOGETHER = 1 << 14
"""Names in one array: large enough that the system gets its memory back once it is freed."""

_HASH = "S16"
_LARGE = 1 << 26
"""Bytes of logs from which on freed memory is returned to the system."""


class Index:
    """The items of a run, with the last line of each in either log; rebuilt from the logs whenever it is needed.

    Items beyond the stop of a sequential run are left out. Of an item 16 bytes of its key's hash are kept, its task,
    its place and an offset for each log, and while names are sorted its name without what all names of its task begin
    with. Lines of items that another log has are looked up some thousands at a time, and only their offsets are kept.

    Args:
        run: The run folder; a log that is missing has no lines.
        logs: The logs that are indexed.
        natural: Whether items stand in natural order of their keys, marvel/9 before marvel/17; otherwise they stand
            in the order of their keys' hashes, which costs no sorting of names.

    Attributes:
        responses: Offset of each item's line in `responses.jsonl`, -1 without one.
        verdicts: The same for `verdicts.jsonl`.

    Raises:
        RunLogError: A line before the last is damaged.
    """

    def __init__(self, run: Path, logs: tuple[str, ...] = (RESPONSES, VERDICTS), *, natural: bool = False) -> None:
        release = return_freed_memory if log_bytes(run, logs) > _LARGE else lambda: None
        release()
        self._tasks: dict[str, int] = {}
        self._beyond: list[str] = read_part(run / BEYOND, "keys", list)
        self._natural = natural
        self._keys, self._task = np.zeros(0, _HASH), np.zeros(0, np.uint8)
        self._names: NDArray[Any] = np.zeros(0, "S1")
        # Four bytes are enough for logs of less than 2 GiB.
        longest = max(log_bytes(run, [name]) for name in logs)
        self._offset: Any = np.int32 if longest <= np.iinfo(np.int32).max else np.int64
        offsets: dict[str, Offsets] = {name: np.zeros(0, self._offset) for name in (RESPONSES, VERDICTS)}
        for name in logs:
            self._read(run / name, name, offsets)
            release()
        count = len(self._keys)
        # Of millions of items few are looked up by their hash, and names are freed once they are sorted.
        self._keys = mapped(self._keys)
        order = _natural_order(self._names, self._task, self._tasks).astype(np.uint32) if natural else None
        del self._names
        self._place = np.arange(count, dtype=np.uint32)
        if order is not None:
            self._place[order] = np.arange(count, dtype=np.uint32)
            for name in logs:
                offsets[name] = offsets[name][order]
        self._place, self._task = mapped(self._place), mapped(self._task)
        self.responses, self.verdicts = offsets[RESPONSES], offsets[VERDICTS]
        release()

    def __len__(self) -> int:
        return len(self.responses)

    def find(self, key: str) -> int | None:
        """Returns an item's position in the order, None if no item has that key."""
        wanted = _hashes([key.encode()])[0]
        position = int(np.searchsorted(self._keys, wanted))
        return int(self._place[position]) if position < len(self) and self._keys[position] == wanted else None

    def by_task(self, offsets: Offsets) -> dict[str, Offsets]:
        """Returns `responses` or `verdicts` by task, each in the order of the keys' hashes, missing lines left out."""
        offsets, task = offsets[self._place], np.asarray(self._task)
        numbers: dict[str, list[int]] = {}
        for name, number in self._tasks.items():
            numbers.setdefault(name.removesuffix("/"), []).append(number)
        return {
            name: offsets[np.isin(task, task_numbers) & (offsets >= 0)]
            for name, task_numbers in sorted(numbers.items())
        }

    def _read(self, path: Path, log: str, offsets: dict[str, Offsets]) -> None:
        """Takes the lines of a log: those of known items at once, the others after the last."""
        left_out = {key.encode() for key in self._beyond}
        new = _Columns()
        for part in heads(path):
            names, starts = part.keys, part.offsets
            if left_out and not (kept := np.array([name not in left_out for name in names])).all():
                names, starts = [names[at] for at in np.flatnonzero(kept)], starts[kept]
            keys = _hashes(names)
            places = np.searchsorted(self._keys, keys)
            known = np.zeros(len(keys), bool)
            if len(self._keys):
                known = self._keys[np.minimum(places, len(self._keys) - 1)] == keys
            offsets[log][places[known]] = starts[known]  # of several lines of one item the last stays
            unknown = np.flatnonzero(~known).tolist()
            if unknown:
                new.add(
                    keys[~known], starts[~known], [names[at].decode() for at in unknown], self._tasks, self._natural
                )
        if len(new.keys):
            self._insert(new, log, offsets)

    def _insert(self, new: _Columns, log: str, columns: dict[str, Offsets]) -> None:
        """Puts new items among the known, in the order of their hashes; of several lines of one item the last."""
        # Millions of items: arrays that are no longer needed are freed at once.
        keys = new.keys.read()
        order = np.argsort(keys, kind="stable").astype(np.uint32)
        keys.sort(kind="stable")  # in place: a sorted copy would hold both at once
        if not (last := np.append(keys[1:] != keys[:-1], True)).all():
            keys, order = keys[last], order[last]
        keys = mapped(keys)
        tasks, starts = _narrow(new.tasks.read())[order], new.starts.read().astype(self._offset)[order]
        names = new.named(order) if self._natural else self._names
        offsets = {name: starts if name == log else np.full(len(keys), -1, self._offset) for name in columns}
        if not len(self._keys):
            self._keys, self._task, self._names = keys, tasks, names
            columns |= offsets
            return
        joined = np.concatenate([self._keys, keys])
        order = np.argsort(joined, kind="stable").astype(np.uint32)
        self._keys = joined[order]
        self._task = np.concatenate([self._task, tasks])[order]
        if self._natural:
            self._names = np.concatenate([self._names, names])[order]
        for name in columns:
            columns[name] = np.concatenate([columns[name], offsets[name]])[order]


class _Columns:
    """The lines of new items: hash, offset, task and sorting name of each."""

    def __init__(self) -> None:
        self.keys, self.starts, self.tasks = Column("B", _HASH), Column("q"), Column("i")
        self._names: list[NDArray[Any]] = []
        self._latest: list[bytes] = []

    def add(
        self, keys: NDArray[Any], starts: Offsets, names: Sequence[str], tasks: dict[str, int], natural: bool
    ) -> None:
        self.keys.add(keys.tobytes())
        self.starts.add(starts.astype(np.int64).tobytes())
        split = [_split(name) for name in names]
        self.tasks.extend([tasks.setdefault(task, len(tasks)) for task, _ in split])
        if natural:
            self._latest += [_within(task, rest) for task, rest in split]
            if len(self._latest) >= _TOGETHER:
                self._pack()

    def named(self, lines: NDArray[np.uint32]) -> NDArray[Any]:
        """Returns the sorting names of some lines, and frees all names part by part."""
        if self._latest:
            self._pack()
        positions = np.full(sum(map(len, self._names)), -1, np.int32)
        positions[lines] = np.arange(len(lines), dtype=np.int32)
        names: NDArray[Any] = np.zeros(len(lines), np.result_type(*(part.dtype for part in self._names)))
        end = len(positions)
        while self._names:
            part = self._names.pop()
            targets = positions[end - len(part) : end]
            end -= len(part)
            names[targets[targets >= 0]] = part[targets >= 0]
        return names

    def _pack(self) -> None:
        names, self._latest = self._latest, []
        kind: Any = np.bytes_ if max(map(len, names)) <= _SHORT else object
        self._names.append(np.array(names, kind))


def _narrow(numbers: NDArray[np.int32]) -> NDArray[Any]:
    """Returns numbers from 0 in as few bytes each as the largest takes."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _split(key: str) -> tuple[str, str]:
    """Returns the task and the text after its slash; a key without a slash is a task's name."""
    task, slash, rest = key.partition("/")
    return task + slash, rest


@lru_cache(maxsize=1024)
def _head(task: str) -> bytes:
    """Returns the common prefix of the sorting names of a task's keys."""
    return natural_key(task) if task.endswith("/") else b""


def _within(task: str, rest: str) -> bytes:
    """Returns the sorting name of a key (`_split`) without its head."""
    if rest.isascii() and rest.isdecimal() and task.endswith("/"):
        digits = rest.lstrip("0").encode()
        return b"\0\1%b%b" % (min(len(digits), _LONGEST).to_bytes(2, "big"), digits)
    return natural_key(task + rest)[len(_head(task)) :]


def _natural_order(names: NDArray[Any], task: NDArray[Any], tasks: dict[str, int]) -> NDArray[np.int64]:
    """Returns the natural order of items, given the names within each one's task."""
    if len(tasks) <= 1:
        return np.argsort(names, kind="stable")
    heads = {number: _head(name) for name, number in tasks.items()}
    if not all(heads.values()):  # keys that name no task stand between tasks
        keys = [heads[number] + name for number, name in zip(task.tolist(), names.tolist(), strict=True)]
        return np.argsort(np.array([name.rstrip(b"\0") for name in keys], object), kind="stable")
    parts = [np.flatnonzero(task == number) for number in sorted(heads, key=heads.__getitem__)]
    return np.concatenate([rows[np.argsort(names[rows], kind="stable")] for rows in parts])


def _hashes(keys: Sequence[bytes]) -> NDArray[Any]:
    """Returns the hashes of keys (`key_table.digest`) as strings in the order of their two halves."""
    return digests(keys).byteswap().view(_HASH).reshape(-1)


def natural_key(key: str) -> bytes:
    """Returns bytes under which marvel/9 stands before marvel/17, and digits before letters."""
    parts = []
    for part in _DIGITS.split(key):
        if part.isdecimal():
            digits = (part if part.isascii() else str(int(part))).lstrip("0").encode()
            parts.append(b"\x01" + min(len(digits), _LONGEST).to_bytes(2, "big") + digits)
        elif part:
            parts.append(b"\x02" + part.encode() + b"\x00")
    # numpy's strings have no zeros at their end.
    return b"".join(parts).rstrip(b"\0")
