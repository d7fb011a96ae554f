"""The index of a run's logs: forty bytes an item, however long its lines and its key are."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from lyncean.arrays import NDArray, np
from orchestrator.run_folder import beyond
from orchestrator.run_folder.files import RESPONSES, VERDICTS
from orchestrator.run_folder.key_table import digest
from orchestrator.run_folder.lines import Head
from orchestrator.run_folder.log import scan

Offsets: TypeAlias = "NDArray[np.int64]"

_COLUMNS = ("uint64", "uint64", "int64", "int32", "bool", "S")
"""Of each line: the halves of its key's hash, where it begins, its task, whether it is a verdict, its sorting name."""

_DIGITS = re.compile(r"(\d+)")
_LONGEST = 0xFFFF
_CHUNK = 1 << 14
_SHORT = 64


class Index:
    """The items of a run, with the last line of each in either log; rebuilt from the logs whenever it is needed.

    Items beyond the stop of a sequential run are left out.

    Args:
        run: The run folder; a log that is missing has no lines.
        logs: The logs that are indexed.
        natural: Whether items stand in natural order of their keys, marvel/9 before marvel/17; otherwise they stand
            in the order of their keys' hashes, which costs no sorting of names.

    Attributes:
        responses: Where each item's line begins in `responses.jsonl`, -1 where it has none.
        verdicts: The same for `verdicts.jsonl`.

    Raises:
        RunLogError: A line before the last is damaged.
    """

    def __init__(self, run: Path, logs: tuple[str, ...] = (RESPONSES, VERDICTS), *, natural: bool = False) -> None:
        self._tasks: dict[str, int] = {}
        self._beyond = beyond.read(run)
        parts = [tuple(np.zeros(0, kind) for kind in _COLUMNS)]
        for name in logs:
            parts += self._parts(run / name, name == VERDICTS, natural)
        low, high, start, task, judged, names = map(np.concatenate, zip(*parts, strict=True))
        del parts
        # Stable: the lines of one key keep their order, so that the last one stands last.
        order = np.lexsort((high, low))
        low, high = low[order], high[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        item = np.cumsum(first) - 1
        count = int(first.sum())
        self._low, self._high, self._task = low[first], high[first], task[order][first]
        self._place = np.arange(count)
        self.responses, self.verdicts = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        for of_log, offsets in ((~judged[order], self.responses), (judged[order], self.verdicts)):
            offsets[item[of_log]] = start[order][of_log]
        if natural:
            sorting = np.argsort(names[order][first], kind="stable")
            self.responses, self.verdicts = self.responses[sorting], self.verdicts[sorting]
            self._place[sorting] = np.arange(count)

    def __len__(self) -> int:
        return len(self.responses)

    def find(self, key: str) -> int | None:
        """Returns an item's place in the order, None if there is none of that key."""
        low, high = digest(key)
        place = int(np.searchsorted(self._low, np.uint64(low)))
        while place < len(self) and self._low[place] == low:
            if self._high[place] == high:
                return int(self._place[place])
            place += 1
        return None

    def by_task(self, offsets: Offsets) -> dict[str, Offsets]:
        """Returns `responses` or `verdicts` by task, each in the order of the keys' hashes, missing lines left out."""
        offsets = offsets[self._place]
        return {name: offsets[(self._task == number) & (offsets >= 0)] for name, number in sorted(self._tasks.items())}

    def _parts(self, path: Path, judged: bool, natural: bool) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yields the columns of a log's lines, some thousands at a time."""
        lines = ((offset, head) for offset, head in scan(path, Head) if head.key not in self._beyond)
        while part := list(islice(lines, _CHUNK)):
            low, high, start, task = array("Q"), array("Q"), array("q"), array("i")
            names = []
            for offset, head in part:
                halves = digest(head.key)
                low.append(halves[0])
                high.append(halves[1])
                start.append(offset)
                task.append(self._tasks.setdefault(head.key.partition("/")[0], len(self._tasks)))
                names.append(natural_key(head.key) if natural else b"")
            kind: Any = np.bytes_ if max(map(len, names)) <= _SHORT else object
            yield (
                np.frombuffer(low, np.uint64),
                np.frombuffer(high, np.uint64),
                np.frombuffer(start, np.int64),
                np.frombuffer(task, np.int32),
                np.full(len(part), judged),
                np.array(names, kind),
            )


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
