"""The items of a run as columns on disk: about a hundred bytes per item, independent of the length of its lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lyncean.columns import Column
from lyncean.vocabulary.keys import split_repeat
from lyncean.vocabulary.outcomes import ANSWERED
from orchestrator.compare.truth import truth
from orchestrator.run_folder.index import Index
from orchestrator.run_folder.reader import Item

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Names = NDArray[np.bytes_]
"""Hashes of names, 16 bytes each."""

GROUP_ALL = "group_all"
"""The metric that scores a group as one: right if all of its items are."""

_BYTES = 16
_NAME = f"S{_BYTES}"
_LINES = np.dtype(("<i8", 2))
_TOGETHER = 1 << 12
"""Items after which columns are checked for their length."""


@dataclass(frozen=True, slots=True)
class Units:
    """The units that a metric is the mean of: items, or groups of items for an all-or-nothing metric.

    Attributes:
        names: Names by which units are paired across runs.
        scores: Scores of the units.
        clusters: Hash of each unit's cluster, the same in all tasks.
    """

    names: Names
    scores: Floats
    clusters: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Items:
    """The planned items of one task of one run, one row per item, in natural order.

    Attributes:
        keys: Names by which items are paired across runs, as `Names`.
        questions: The same without the repeat.
        places: Index of each item in the run (`Run.at`).
        lines: Offsets of its lines in the two logs (`Run.lines`).
        scores: The verdict's score; 0 for an unanswered item, as in accuracy (all samples).
        answered: True if it is scored or unparsed, so that it counts in a metric over answered items.
        labels: Index of its labels in `kinds`.
        clusters: Hash of each item's cluster, the same in all tasks.
        groups: Hash of group and repeat, the unit of an all-or-nothing metric; empty without such a metric.
        asked: Hash of the question; 0 if it may contain the model's own earlier answers.
        targets: Hash of targets and options.
        parts: The named parts of the score that metrics use.
        kinds: The distinct sets of labels.
        repeats: Largest number of repeats of a question.
    """

    keys: Column
    questions: Column
    places: Column
    lines: Column
    scores: Column
    answered: Column
    labels: Column
    clusters: Column
    groups: Column
    asked: Column
    targets: Column
    parts: Mapping[str, Column]
    kinds: Sequence[Mapping[str, str]]
    repeats: int

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, spec: Mapping[str, Any]) -> Ints:
        """Returns the rows of the items that a metric (lyncean.scorer.v1.MetricSpec) counts."""
        return np.flatnonzero(np.array(self._fits(spec), dtype=bool)[self.labels.read()])

    def has(self, spec: Mapping[str, Any]) -> bool:
        """Returns True if a metric counts any item; every entry of `kinds` has items."""
        return any(self._fits(spec))

    def _fits(self, spec: Mapping[str, Any]) -> list[bool]:
        where = {label: accepted.get("values", ()) for label, accepted in (spec.get("where") or {}).items()}
        return [all(not values or kind.get(label) in values for label, values in where.items()) for kind in self.kinds]

    def values(self, spec: Mapping[str, Any]) -> Floats:
        """Returns the score of every item, or the part of the score that a metric uses."""
        part = part_of(spec)
        return (self.parts[part] if part else self.scores).read()

    def units(self, spec: Mapping[str, Any]) -> Units:
        """Returns the units that a metric (lyncean.scorer.v1.MetricSpec) is the mean of."""
        if all(self._fits(spec)) and spec.get("metric") != GROUP_ALL:
            return Units(self.keys.read(), self.values(spec), self.clusters.read())
        rows = self.rows(spec)
        if spec.get("metric") == GROUP_ALL:
            names, first, group = np.unique(self.groups.read()[rows], return_index=True, return_inverse=True)
            right = np.ones(len(names))
            np.minimum.at(right, group, (self.scores.read()[rows] == 1.0).astype(np.float64))
            return Units(names, right, self.clusters.read()[rows][first])
        return Units(self.keys.read()[rows], self.values(spec)[rows], self.clusters.read()[rows])

    def questions_of(self, spec: Mapping[str, Any]) -> Units:
        """Returns questions, or groups of questions, as units; a score is the mean over the repeats."""
        if spec.get("metric") == GROUP_ALL:
            units = self.units(spec)
            names = units.clusters.view("S8")
        else:
            rows = self.rows(spec)
            names = self.questions.read()[rows]
            units = Units(names, self.values(spec)[rows], self.clusters.read()[rows])
        distinct, first, question = np.unique(names, return_index=True, return_inverse=True)
        means = np.bincount(question, weights=units.scores) / np.bincount(question)
        return Units(distinct, means, units.clusters[first])


class Gathering:
    """Gathers the items of one task.

    Args:
        specs: The metrics that will be computed.
        source: The owner of the groups: the data, or the task if its data are unknown. Groups of the same name in
            other data are other groups; two tasks on the same rows share their groups.
        name: Returns the name by which an item is paired across runs, by default its key.
    """

    def __init__(
        self, specs: Sequence[Mapping[str, Any]], source: str, name: Callable[[Item], str] = lambda item: item.key
    ) -> None:
        self._source, self._name = source, name
        self._columns = {
            "keys": Column("B", _NAME), "questions": Column("B", _NAME), "places": Column("I"),
            "lines": Column("q", _LINES), "scores": Column("d"), "answered": Column("b", np.bool_),
            "labels": Column("I"), "clusters": Column("Q"), "groups": Column("B", _NAME),
            "asked": Column("Q"), "targets": Column("Q"),
        }  # fmt: skip
        self._append = {name: column.append for name, column in self._columns.items()}
        self._parts = {part: Column("d") for spec in specs if (part := part_of(spec))}
        self._kinds: dict[tuple[tuple[str, str], ...], int] = {}
        self._grouped = any(spec.get("metric") == GROUP_ALL for spec in specs)
        self._count = self._repeats = 0

    def add(self, item: Item, index: int) -> None:
        """Adds the item at an index of its run."""
        response, verdict, append = item.response, item.verdict, self._append
        request = response.get("request") or {}
        messages: Sequence[Mapping[str, Any]] = request.get("messages", ())
        # A later turn contains earlier answers or drawings of the model, under any role.
        follows_answer = bool(response.get("turn")) or any(
            message.get("role") == "ROLE_ASSISTANT" for message in messages
        )
        bare, repeat = split_repeat(item.key)
        name = self._name(item)
        hashed = _name(name)
        self._columns["keys"].add(hashed)
        self._columns["questions"].add(_name(split_repeat(name)[0]) if repeat else hashed)
        self._repeats = max(self._repeats, repeat + 1)
        append["places"](index)
        append["scores"](item.score or 0.0)
        append["answered"](item.outcome in ANSWERED)
        for part, column in self._parts.items():
            column.append(float((verdict.get("scores") or {}).get(part, 0.0)))
        append["labels"](self._kinds.setdefault(tuple(item.labels.items()), len(self._kinds)))
        # Repeats of an item are not independent evidence: they belong to one cluster.
        group = item.group
        append["clusters"](_hash([self._source, group or bare.split("/", 1)[-1]]))
        if self._grouped:
            self._columns["groups"].add(_name(f"{group or bare}#{repeat}"))
        append["asked"](0 if follows_answer or not messages else _hash([messages, request.get("continuations", ())]))
        append["targets"](_hash(truth(item)))
        self._count += 1
        if self._count % _TOGETHER == 0:
            for column in self._all:
                column.settle()

    def locate(self, index: Index) -> None:
        """Adds the offsets of the lines of all items; called once, at the end."""
        places = self._columns["places"].read()
        for start in range(0, len(places), _TOGETHER):
            some = places[start : start + _TOGETHER]
            offsets = np.stack([index.responses[some], index.verdicts[some]], axis=1)
            self._columns["lines"].add(offsets.astype(np.int64).tobytes())

    @property
    def _all(self) -> list[Column]:
        return [*self._columns.values(), *self._parts.values()]

    def items(self) -> Items:
        """Returns the gathered items."""
        kinds = [dict(kind) for kind in self._kinds]
        return Items(**self._columns, parts=self._parts, kinds=kinds, repeats=self._repeats)


def part_of(spec: Mapping[str, Any]) -> str:
    """Returns the part of the score that a metric uses, "" for the score itself."""
    return str((spec.get("params") or {}).get("part", ""))


def pair(names: Sequence[Names]) -> list[Ints]:
    """Returns the rows in each list of the names that all lists have, in the order of the first list.

    The lists are not empty and have no duplicates.
    """
    rows: list[Ints] = [np.arange(len(names[0]))]
    for other in names[1:]:
        if len(rows[0]) == len(names[0]) == len(other) and np.array_equal(names[0], other):
            rows.append(rows[0])
            continue
        mine = names[0][rows[0]]
        order = np.argsort(other)
        positions = order[np.minimum(np.searchsorted(other, mine, sorter=order), len(other) - 1)]
        same = other[positions] == mine
        rows = [row[same] for row in rows] + [positions[same]]
    return rows


def _name(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_BYTES).digest()


def _hash(value: Any) -> int:
    packed = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(blake2b(packed, digest_size=8).digest())
