"""Where everything stands in a run's two logs: some forty bytes an item, however long its lines are."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from numpy.typing import NDArray

from orchestrator.keytable import digest

_HEAD = re.compile(rb'\{"key":"([^"\\]*)"')
_DIGITS = re.compile(r"(\d+)")
_LONGEST = 0xFFFF
_CHUNK = 1 << 16
_SHORT = 64


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
        names = _Names()
        for key, offset in keys(responses):
            _add(lows, highs, offsets, key, offset)
            names.add(key)
        answered = len(offsets)
        for key, offset in keys(verdicts):
            _add(lows, highs, offsets, key, offset)
        # Lines of one key stand together, those of the first log first, each log's in their order.
        order = np.lexsort((np.frombuffer(highs, np.uint64), np.frombuffer(lows, np.uint64)))
        low, high = np.frombuffer(lows, np.uint64)[order], np.frombuffer(highs, np.uint64)[order]
        at = np.frombuffer(offsets, np.int64)[order]
        del lows, highs, offsets
        new = np.ones(len(order), dtype=bool)
        new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        self._low, self._high = low[new], high[new]
        del low, high
        item = np.cumsum(new) - 1
        found = np.full((2, len(self._low)), -1, dtype=np.int64)
        for log, mine in enumerate((order < answered, order >= answered)):
            found[log][item[mine]] = at[mine]
        first = order[new]
        del order, item, at, new
        places = np.argsort(_sorted_by(names.array(), first, found[1], verdicts), kind="stable")
        self.responses, self.verdicts = found[0][places], found[1][places]
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


class _Names:
    """What keys are sorted by, in as many bytes as the longest has, unless that is long."""

    def __init__(self) -> None:
        self._whole: list[NDArray[Any]] = []
        self._part: list[bytes] = []

    def add(self, key: str) -> None:
        self._part.append(sortable(key))
        if len(self._part) == _CHUNK:
            self._close()

    def array(self) -> NDArray[Any]:
        self._close()
        return np.concatenate(self._whole)

    def _close(self) -> None:
        self._whole.append(_packed(self._part))
        self._part = []


def _packed(names: list[bytes]) -> NDArray[Any]:
    short = max(map(len, names), default=0) <= _SHORT
    return np.array(names, dtype=np.bytes_ if short else object)


def _sorted_by(names: NDArray[Any], first: NDArray[np.int64], verdicts: NDArray[np.int64], path: Path) -> NDArray[Any]:
    """Returns what each item is sorted by; that of an item without an answer is read from its verdict."""
    missing = np.flatnonzero(first >= len(names))
    if not len(missing):
        return names[first]
    read = []
    with path.open("rb") as file:
        for item in missing:
            file.seek(verdicts[item])
            read.append(sortable(_key(file.readline())))
    every = np.concatenate([names, _packed(read)])
    where = first.copy()
    where[missing] = len(names) + np.arange(len(missing))
    return every[where]
