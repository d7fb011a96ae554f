"""Keys of the planned rows: written as rows are planned, so that a resume need not build their samples again.

The file follows from the run's identity and the benchmarks' code alone, not from answers;
it is kept under a hash of both, and rows that cannot be read are planned anew. It may be deleted.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, BinaryIO
from zlib import crc32

from lyncean.arrays import NDArray, np
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run_folder.errors import write_error
from orchestrator.run_folder.files import PLANNED
from orchestrator.run_folder.key_table import digest, shard_of
from orchestrator.run_folder.log import RunLog, outcome_of
from orchestrator.samples import Sample

STRIDE = 64
"""Rows that are noted and passed over as one."""

_TOGETHER = 1024
"""Strides that are looked up at once."""

_HEAD = struct.Struct("<IIII")
_KEY = struct.Struct("<QQB")
_KEYS: Any = [("low", "<u8"), ("high", "<u8"), ("scored", "u1")]
_CHECK = struct.Struct("<I")
_MOST_ROWS = 1 << 40

Stride = tuple[int, int, int]
"""Number of the task in the run, the first row, and the count of rows."""

Settled = Callable[[str, Outcome, int], None]


class PlannedRows:
    """The file `.planned` of a run folder: for each stride of rows its items' key hashes.

    Items of the file that the log has settled are counted on reading; `over` names their strides. Each stride takes
    eight bytes.

    Args:
        log: The run folder, held by this process.
        name: 32 bytes that differ whenever the samples may; a file of another name is begun anew.
        tasks: Names of the run's tasks, in its order.
        settled: Called with task, outcome and number of the items that are passed over.
        shard: The part of the samples that is run here.

    Raises:
        RunWriteError: If the file cannot be written.
    """

    def __init__(
        self,
        log: RunLog,
        name: bytes,
        tasks: Sequence[str],
        settled: Settled,
        shard: tuple[int, int] | None = None,
    ) -> None:
        self._path = log.path / PLANNED
        self._shard = shard
        self._keys: list[tuple[int, int, bool]] = []
        self._known, self._over = _Strides(), _Strides()
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            end = 0
            with self._path.open("rb") as file:
                if file.read(len(name)) == name:
                    end = len(name)
                    records = _records(file)
                    while some := list(islice(records, _TOGETHER)):
                        for task, of_task in groupby(some, lambda record: record[0][0]):
                            self._pass_over(log, list(of_task), tasks[task], settled)
                        end = some[-1][2]
            os.ftruncate(self._fd, end)
            os.lseek(self._fd, end, os.SEEK_SET)
            if not end:
                os.write(self._fd, name)
        except OSError as error:
            raise write_error(self._path, error) from error
        self._known.sort()
        self._over.sort()

    def over(self, task: int, first: int, rows: int) -> bool:
        """Returns whether a stride of rows is complete."""
        return (task, first, rows) in self._over

    def rows_over(self, task: int, first: int) -> int:
        """Returns the number of rows from `first` on that are complete, a multiple of the stride."""
        return self._over.run_of(task, first) * STRIDE

    def note(self, sample: Sample) -> None:
        """Takes a sample of the stride that is being planned."""
        if self._shard and shard_of(sample.key, self._shard[1]) != self._shard[0]:
            return
        self._keys += [(*digest(sample.item_key(turn)), turn.scoring is not None) for turn in sample.turns]

    def close_stride(self, task: int, first: int, rows: int) -> None:
        """Writes a stride of which all samples were noted.

        Raises:
            RunWriteError: If it cannot be written.
        """
        keys, self._keys = self._keys, []
        if (task, first, rows) in self._known:
            return
        try:
            os.write(self._fd, sealed_stride((task, first, rows), keys))
        except OSError as error:
            raise write_error(self._path, error) from error

    def close(self) -> None:
        """Closes the file."""
        os.close(self._fd)

    def _pass_over(
        self, log: RunLog, records: Sequence[tuple[Stride, bytes, int]], task: str, settled: Settled
    ) -> None:
        sizes = np.array([len(keys) // _KEY.size for _, keys, _ in records])
        keys = np.frombuffer(b"".join(keys for _, keys, _ in records), _KEYS)
        over, outcomes = log.settled(keys, sizes)
        for number, count in enumerate(np.bincount(outcomes).tolist()):
            if number and count:
                settled(task, outcome_of(number), count)
        for (stride, _, _), is_over in zip(records, over.tolist(), strict=True):
            self._known.add(stride)
            if is_over:
                self._over.add(stride)


def sealed_stride(stride: Stride, keys: Sequence[tuple[int, int, bool]]) -> bytes:
    """Returns the record of a stride: its keys' hashes as two numbers each, and whether they are scored."""
    data = _HEAD.pack(*stride, len(keys)) + b"".join(_KEY.pack(*key) for key in keys)
    return data + _CHECK.pack(crc32(data))


class _Strides:
    """A set of strides, eight bytes each; added strides are found after `sort`."""

    def __init__(self) -> None:
        self._packed = array("Q")
        self._sorted: NDArray[np.uint64] | None = None
        self._ends: NDArray[np.int64] | None = None

    def add(self, stride: Stride) -> None:
        self._packed.append(_packed(stride))

    def sort(self) -> None:
        """Sorts the added strides for look-up. Nothing may be added afterwards."""
        if self._packed:
            self._sorted = np.sort(np.frombuffer(self._packed, np.uint64))
            # Full strides that follow each other begin STRIDE rows apart; the low 8 bits hold their rows.
            gaps = np.flatnonzero(np.diff(self._sorted) != STRIDE << 8) + 1
            self._ends = np.append(gaps, len(self._sorted))
            self._packed = array("Q")

    def __contains__(self, stride: Stride) -> bool:
        return self._position(stride) is not None

    def run_of(self, task: int, first: int) -> int:
        """Returns the number of full strides of a task that follow each other from a row on."""
        position = self._position((task, first, STRIDE))
        if position is None or self._ends is None:
            return 0
        return int(self._ends[np.searchsorted(self._ends, position, side="right")]) - position

    def _position(self, stride: Stride) -> int | None:
        if self._sorted is None:
            return None
        packed = np.uint64(_packed(stride))
        position = int(np.searchsorted(self._sorted, packed))
        return position if position < len(self._sorted) and self._sorted[position] == packed else None


def _packed(stride: Stride) -> int:
    task, first, rows = stride
    return (task * _MOST_ROWS + first << 8) + rows


def _records(file: BinaryIO) -> Iterator[tuple[Stride, bytes, int]]:
    """Yields each intact record up to the first damaged one: the stride, its keys, and the offset of its end."""
    size = os.fstat(file.fileno()).st_size
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        task, first, rows, count = _HEAD.unpack(head)
        keys = file.read(min(count * _KEY.size, size))
        if file.read(_CHECK.size) != _CHECK.pack(crc32(head + keys)):
            return
        yield (task, first, rows), keys, file.tell()
