"""The items of a run as columns: some seventy bytes an item, however long its lines are."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lyncean.keys import split_repeat
from lyncean.outcomes import ANSWERED
from orchestrator.run_folder.reader import Item

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Names = NDArray[np.bytes_]
"""Hashes of names, 16 bytes each."""

GROUP_ALL = "group_all"
"""The metric that takes the items of a group together: right where all of them are."""

_BYTES = 16


@dataclass(frozen=True, slots=True)
class Units:
    """What a metric is the mean of: items, or for an all-or-nothing metric groups of items.

    Attributes:
        names: What they are paired by across runs.
        scores: The score of each.
        clusters: Hash of the cluster that each belongs to, in whatever task.
    """

    names: Names
    scores: Floats
    clusters: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Items:
    """The planned items of one task of one run, a row each, in the order a person would put them.

    Attributes:
        keys: What they are paired by across runs.
        places: Where each stands in the run (`Run.at`).
        scores: The verdict's score; 0 where the item was not answered, as over planned.
        answered: Whether it is scored or unparsed, and so counts in a metric over answered items.
        parts: The named parts of the score that metrics are made of.
        labels: Which of `kinds` the labels of each are.
        kinds: The labels that items have.
        clusters: Hash of the cluster that each belongs to, in whatever task.
        groups: Hash of group and repeat, what an all-or-nothing metric takes together; empty without one.
        asked: Hash of the question; 0 where it may hold the model's own earlier answers.
        targets: Hash of targets and options.
    """

    keys: Names
    places: NDArray[np.uint32]
    scores: Floats
    answered: NDArray[np.bool_]
    parts: Mapping[str, Floats]
    labels: NDArray[np.uint32]
    kinds: Sequence[Mapping[str, str]]
    clusters: NDArray[np.uint64]
    groups: Names
    asked: NDArray[np.uint64]
    targets: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, spec: Mapping[str, Any]) -> Ints:
        """Returns the rows of the items that a metric (lyncean.scorer.v1.MetricSpec) takes."""
        where = {label: found.get("values", ()) for label, found in (spec.get("where") or {}).items()}
        fits = [all(not values or kind.get(label) in values for label, values in where.items()) for kind in self.kinds]
        return np.flatnonzero(np.array(fits, dtype=bool)[self.labels])

    def values(self, spec: Mapping[str, Any]) -> Floats:
        """Returns the score of every item, or the part of it that a metric is made of."""
        part = part_of(spec)
        return self.parts[part] if part else self.scores

    def units(self, spec: Mapping[str, Any]) -> Units:
        """Returns what a metric (lyncean.scorer.v1.MetricSpec) is the mean of."""
        rows = self.rows(spec)
        if spec.get("metric") == GROUP_ALL:
            names, first, group = np.unique(self.groups[rows], return_index=True, return_inverse=True)
            right = np.ones(len(names))
            np.minimum.at(right, group, (self.scores[rows] == 1.0).astype(np.float64))
            return Units(names, right, self.clusters[rows][first])
        return Units(self.keys[rows], self.values(spec)[rows], self.clusters[rows])


class Gathering:
    """Gathers the items of one task.

    Args:
        specs: The metrics that will be asked for.
        source: What the groups belong to: the data, or the task where its data are unknown. Groups of one name in
            other data are other groups; two tasks that ask about the same rows share theirs.
    """

    def __init__(self, specs: Sequence[Mapping[str, Any]], source: str) -> None:
        self._source = source
        self._keys, self._groups = bytearray(), bytearray()
        self._places, self._labels, self._answered = array("I"), array("I"), array("b")
        self._scores, self._asked, self._targets, self._clusters = array("d"), array("Q"), array("Q"), array("Q")
        self._parts = {part: array("d") for spec in specs if (part := part_of(spec))}
        self._kinds: dict[tuple[tuple[str, str], ...], int] = {}
        self._grouped = any(spec.get("metric") == GROUP_ALL for spec in specs)

    def add(self, item: Item, place: int) -> None:
        """Adds an item that stands at a place of its run."""
        request = item.response.get("request") or {}
        messages: Sequence[Mapping[str, Any]] = request.get("messages", ())
        # A later turn is asked with what the model said or drew before, whoever is made to say it.
        own = bool(item.response.get("turn")) or any(message.get("role") == "ROLE_ASSISTANT" for message in messages)
        bare, repeat = split_repeat(item.key)
        self._keys += _name(item.key)
        self._places.append(place)
        self._scores.append(item.score or 0.0)
        self._answered.append(item.outcome in ANSWERED)
        found = item.verdict.get("scores") or {}
        for part, values in self._parts.items():
            values.append(float(found.get(part, 0.0)))
        self._labels.append(self._kinds.setdefault(tuple(item.labels.items()), len(self._kinds)))
        # Repeats of an item are no new evidence: they belong to one cluster.
        group = item.group or bare
        self._clusters.append(_hash([self._source, item.group or bare.split("/", 1)[-1]]))
        if self._grouped:
            self._groups += _name(f"{group}#{repeat}")
        self._asked.append(0 if own or not messages else _hash([messages, request.get("continuations", ())]))
        self._targets.append(_hash([item.scoring.get("targets", ()), item.scoring.get("options", ())]))

    def items(self) -> Items:
        """Returns what was gathered."""
        return Items(
            keys=_names(self._keys),
            places=np.frombuffer(self._places, np.uint32),
            scores=np.frombuffer(self._scores),
            answered=np.frombuffer(self._answered, np.bool_),
            parts={part: np.frombuffer(values) for part, values in self._parts.items()},
            labels=np.frombuffer(self._labels, np.uint32),
            kinds=[dict(kind) for kind in self._kinds],
            clusters=np.frombuffer(self._clusters, np.uint64),
            groups=_names(self._groups),
            asked=np.frombuffer(self._asked, np.uint64),
            targets=np.frombuffer(self._targets, np.uint64),
        )


def part_of(spec: Mapping[str, Any]) -> str:
    """Returns the part of the score that a metric is made of, "" for the score itself."""
    return str((spec.get("params") or {}).get("part", ""))


def pair(names: Sequence[Names]) -> list[Ints]:
    """Returns the rows of each list that stand for what is in all of them, in the order of the first.

    The lists have no repetition, and none is empty.
    """
    rows: list[Ints] = [np.arange(len(names[0]))]
    for other in names[1:]:
        mine = names[0][rows[0]]
        if np.array_equal(mine, other):
            rows.append(np.arange(len(other)))
            continue
        order = np.argsort(other)
        found = order[np.minimum(np.searchsorted(other, mine, sorter=order), len(other) - 1)]
        same = other[found] == mine
        rows = [row[same] for row in rows] + [found[same]]
    return rows


def _name(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_BYTES).digest()


def _names(packed: bytearray) -> Names:
    return np.frombuffer(packed, dtype=f"S{_BYTES}")


def _hash(value: Any) -> int:
    packed = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(blake2b(packed, digest_size=8).digest())
