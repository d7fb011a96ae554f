"""Where everything stands in a run's two logs: some forty bytes an item, however long its lines are."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import orjson
from numpy.typing import NDArray

from orchestrator.keytable import digest

_HEAD = re.compile(rb'\{"key":"([^"\\]*)"')
_DIGITS = re.compile(r"(\d+)")
_LONGEST = 0xFFFF


class Index:
    """The items of a run in the order a person would put them, with the last line of each in either log.

    Args:
        responses: The run's responses.jsonl; it may be missing.
        verdicts: Its verdicts.jsonl; likewise.

    Attributes:
        responses: Where each item's line begins in responses.jsonl, -1 where it has none.
        verdicts: The same for verdicts.jsonl.

    Raises:
        click.UsageError: A line before the last is damaged.
    """

    def __init__(self, responses: Path, verdicts: Path) -> None:
        lows, highs, offsets = array("Q"), array("Q"), array("q")
        names: list[bytes] = []
        for key, offset in keys(responses):
            _add(lows, highs, offsets, key, offset)
            names.append(sortable(key))
        answered = len(offsets)
        for key, offset in keys(verdicts):
            _add(lows, highs, offsets, key, offset)
        low, high = np.frombuffer(lows, np.uint64), np.frombuffer(highs, np.uint64)
        # Lines of one key stand together, those of the first log first, each log's in their order.
        order = np.lexsort((high, low))
        low, high, at = low[order], high[order], np.frombuffer(offsets, np.int64)[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        item = np.cumsum(new) - 1
        found = np.full((2, int(new.sum())), -1, dtype=np.int64)
        for log, mine in enumerate((order < answered, order >= answered)):
            found[log][item[mine]] = at[mine]
        names = _names(names, order[new], found[1], verdicts)
        places = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
        self.responses, self.verdicts = found[0][places], found[1][places]
        self._low, self._high = low[new], high[new]
        self._place = np.empty_like(places)
        self._place[places] = np.arange(len(places))

    def __len__(self) -> int:
        return len(self.responses)

    def find(self, key: str) -> int | None:
        """Returns an item's place in the order, None if there is none of that key."""
        low, high = digest(key)
        at = int(np.searchsorted(self._low, np.uint64(low)))
        while at < len(self) and self._low[at] == low:
            if self._high[at] == high:
                return int(self._place[at])
            at += 1
        return None


def keys(path: Path) -> Iterator[tuple[str, int]]:
    """Yields the key of each whole line and where the line begins; a torn last line is passed over.

    Raises:
        click.UsageError: A line before the last is damaged.
    """
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield _key(line), offset
            except (ValueError, KeyError, TypeError) as error:
                raise click.UsageError(f"{path} line {number} is damaged: {error}") from error
            offset += len(line)


def sortable(key: str) -> bytes:
    """Returns bytes under which marvel/9 stands before marvel/17, and digits before letters."""
    parts = []
    for part in _DIGITS.split(key):
        if part.isdecimal():
            digits = (part if part.isascii() else str(int(part))).lstrip("0").encode()
            parts.append(b"\x01" + min(len(digits), _LONGEST).to_bytes(2, "big") + digits)
        elif part:
            parts.append(b"\x02" + part.encode() + b"\x00")
    return b"".join(parts)


def _key(line: bytes) -> str:
    head = _HEAD.match(line)
    return head[1].decode() if head else str(orjson.loads(line)["key"])


def _add(lows: array[int], highs: array[int], offsets: array[int], key: str, offset: int) -> None:
    low, high = digest(key)
    lows.append(low)
    highs.append(high)
    offsets.append(offset)


def _names(names: list[bytes], first: NDArray[np.int64], verdicts: NDArray[np.int64], path: Path) -> list[bytes]:
    """Returns what each item is sorted by; that of an item without an answer is read from its verdict."""
    found = [names[line] if line < len(names) else b"" for line in first]
    missing = np.flatnonzero(first >= len(names))
    if len(missing):
        with path.open("rb") as file:
            for item in missing:
                file.seek(verdicts[item])
                found[item] = sortable(_key(file.readline()))
    return found
