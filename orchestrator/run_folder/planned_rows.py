"""Which rows make which keys: written as rows are planned, so that a resume need not build their samples again.

What it says follows from the run's identity and the benchmarks' code alone, whatever was answered;
it is kept under a hash of both, and whatever cannot be read is planned anew. It may be deleted.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO
from zlib import crc32

from lyncean.outcomes import Outcome
from orchestrator.run_folder.files import PLANNED
from orchestrator.run_folder.key_table import digest, shard_of
from orchestrator.run_folder.log import RunLog, write_error
from orchestrator.samples import Sample

STRIDE = 64
"""Rows that are noted together, and passed over together or not at all."""

_HEAD = struct.Struct("<IIII")
_KEY = struct.Struct("<QQB")
_CHECK = struct.Struct("<I")

Stride = tuple[int, int, int]
"""Which task of the run, its first row, and how many rows."""

Key = tuple[int, int, bool]
"""The two halves of an item's hash, and whether it is scored."""


class PlannedRows:
    """The file `.planned` of a run folder: for each stride of rows its items' key hashes.

    What the log has settled of what the file names is counted here and now; `over` tells where.

    Args:
        log: The run folder, held by this process.
        name: 32 bytes that differ whenever the samples may; a file of another name is begun anew.
        tasks: Names of the run's tasks, in its order.
        settled: Called with task and outcome for each item that is passed over.
        shard: The part of the samples that is run here.

    Raises:
        RunWriteError: If the file cannot be written.
    """

    def __init__(
        self,
        log: RunLog,
        name: bytes,
        tasks: Sequence[str],
        settled: Callable[[str, Outcome], None],
        shard: tuple[int, int] | None = None,
    ) -> None:
        self._path = log.path / PLANNED
        self._shard = shard
        self._keys: list[Key] = []
        self._known: dict[Stride, bool] = {}
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            whole = 0
            with self._path.open("rb") as file:
                if file.read(len(name)) == name:
                    whole = len(name)
                    for stride, keys in _records(file):
                        self._known[stride] = _pass_over(log, keys, tasks[stride[0]], settled)
                        whole = file.tell()
            os.ftruncate(self._fd, whole)
            os.lseek(self._fd, whole, os.SEEK_SET)
            if not whole:
                os.write(self._fd, name)
        except OSError as error:
            raise write_error(self._path, error) from error

    def over(self, task: int, first: int, rows: int) -> bool:
        """Returns whether nothing is left to do for a stride of rows."""
        return self._known.get((task, first, rows), False)

    def note(self, sample: Sample) -> None:
        """Takes a sample of the stride that is being planned."""
        if self._shard and shard_of(sample.key, self._shard[1]) != self._shard[0]:
            return
        self._keys += [(*digest(sample.item_key(turn)), turn.scoring is not None) for turn in sample.turns]

    def close_stride(self, task: int, first: int, rows: int) -> None:
        """Writes down a stride all of whose samples were noted.

        Raises:
            RunWriteError: If it cannot be written.
        """
        keys, self._keys = self._keys, []
        if (task, first, rows) in self._known:
            return
        data = _HEAD.pack(task, first, rows, len(keys)) + b"".join(_KEY.pack(*key) for key in keys)
        try:
            os.write(self._fd, data + _CHECK.pack(crc32(data)))
        except OSError as error:
            raise write_error(self._path, error) from error

    def close(self) -> None:
        """Closes the file."""
        os.close(self._fd)


def _pass_over(log: RunLog, keys: Sequence[Key], task: str, settled: Callable[[str, Outcome], None]) -> bool:
    outcomes = log.settled(keys)
    for outcome in outcomes or ():
        settled(task, outcome)
    return outcomes is not None


def _records(file: BinaryIO) -> Iterator[tuple[Stride, list[Key]]]:
    """Yields each whole record, up to the first that is torn or damaged."""
    size = os.fstat(file.fileno()).st_size
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        task, first, rows, count = _HEAD.unpack(head)
        keys = file.read(min(count * _KEY.size, size))
        if file.read(_CHECK.size) != _CHECK.pack(crc32(head + keys)):
            return
        yield (task, first, rows), [(low, high, bool(scored)) for low, high, scored in _KEY.iter_unpack(keys)]
