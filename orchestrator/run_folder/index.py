"""Where everything stands in a run's two logs: forty bytes an item, however long its lines and its key are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from orchestrator.errors import ConfigError

_HEAD = re.compile(rb'\{"key":"([^"\\]*)"')
_DIGITS = re.compile(r"(\d+)")
_SORTED_ALIKE = re.compile(r"(?<!\d)0\d|[^\D0-9]|\0")
"""In keys that stand where another one does: 07 and 7."""

_LONGEST = 0xFFFF
_CHUNK = 1 << 14
_SHORT = 64

_Lines = tuple[NDArray[Any], NDArray[np.int64]]
"""What their items are called (`_name`), and where they begin."""

_NO_LINES: _Lines = (np.zeros(0, np.bytes_), np.zeros(0, np.int64))


class Index:
    """The items of a run in the order a person would put them, with the last line of each in either log.

    Args:
        responses: The run's responses.jsonl; it may be missing.
        verdicts: Its verdicts.jsonl; likewise.

    Attributes:
        responses: Where each item's line begins in responses.jsonl, -1 where it has none.
        verdicts: The same for verdicts.jsonl.

    Raises:
        ConfigError: A line before the last is damaged.
    """

    def __init__(self, responses: Path, verdicts: Path) -> None:
        names, self.responses = _last_lines(_lines(responses))
        self.verdicts = np.full(len(names), -1, np.int64)
        alone, offsets = _last_lines(_put(self.verdicts, names, *lines) for lines in _lines(verdicts))
        if len(alone):
            places = np.searchsorted(names, alone)
            names = np.insert(names.astype(np.result_type(names, alone)), places, alone)
            self.responses = np.insert(self.responses, places, -1)
            self.verdicts = np.insert(self.verdicts, places, offsets)
        self._hashes = np.fromiter(map(_hash, names), "S16", len(names))
        self._by_hash = np.argsort(self._hashes)

    def __len__(self) -> int:
        return len(self.responses)

    def find(self, key: str) -> int | None:
        """Returns an item's place in the order, None if there is none of that key."""
        wanted = _hash(_name(key))
        at = np.searchsorted(self._hashes, wanted, sorter=self._by_hash)
        if at == len(self) or self._hashes[self._by_hash[at]] != wanted:
            return None
        return int(self._by_hash[at])


def keys(path: Path) -> Iterator[tuple[str, int]]:
    """Yields the key of each whole line and where the line begins; a torn last line is passed over.

    Raises:
        ConfigError: A line before the last is damaged.
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
                raise ConfigError(
                    f"{path} line {number} is damaged ({error}): delete it and run the command again, which asks or "
                    "scores it anew"
                ) from error
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


def _name(key: str) -> bytes:
    """Returns what an item is sorted and known by, no two keys the same."""
    name = sortable(key)
    if _SORTED_ALIKE.search(key):
        name += b"\0" + blake2b(key.encode(), digest_size=16).digest()
    # numpy's strings have no zeros at their end.
    return name.rstrip(b"\0")


def _hash(name: bytes) -> bytes:
    return blake2b(name, digest_size=16).digest().rstrip(b"\0")


def _lines(path: Path) -> Iterator[_Lines]:
    """Yields a log's lines, some thousands at a time, each name in as many bytes as the longest unless that is long."""
    found = keys(path)
    while part := list(islice(found, _CHUNK)):
        names = [_name(key) for key, _ in part]
        short = max(map(len, names)) <= _SHORT
        yield np.array(names, np.bytes_ if short else object), np.array([offset for _, offset in part], np.int64)


def _last_lines(parts: Iterable[_Lines]) -> _Lines:
    """Returns each name once, sorted, with where its last line begins."""
    names, offsets = map(np.concatenate, zip(_NO_LINES, *parts, strict=True))
    order = np.argsort(names, kind="stable")
    names = names[order]
    last = np.ones(len(names), dtype=bool)
    last[:-1] = names[1:] != names[:-1]
    names = names[last]
    return names, offsets[order[last]]


def _put(places: NDArray[np.int64], names: NDArray[Any], mine: NDArray[Any], offsets: NDArray[np.int64]) -> _Lines:
    """Puts lines in the places of their names, the last of each name; returns those of other names."""
    at = np.searchsorted(names, mine)
    known = np.searchsorted(names, mine, "right") > at
    places[at[known]] = offsets[known]
    return mine[~known], offsets[~known]
