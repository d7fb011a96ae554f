"""Divides the difference of two means among the items that cause it, in exact fractions.

Of `n` items that both means count, each adds `(b - a) / n`. An item that only the first counts adds `(A - a) / N`, with
the first run's mean `A` over the `n` items and the number `N` of all items that it counts; one that only the second
counts adds `(b - B) / N` likewise. These sum to the difference of the two means. In an all-or-nothing metric the same
holds for groups, and what a group adds is divided evenly among the items that make it fail, which is their Shapley
value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np

from orchestrator.compare.items import GROUP_ALL, Floats, Ints, Items, pair

NOWHERE = -1
"""Index of an item in a run that does not have it."""


class Measure(NamedTuple):
    """The scores that a result is the mean of.

    Attributes:
        spec: The metric (lyncean.scorer.v1.MetricSpec).
        answered: True if unanswered items are left out, False if they count as 0.
    """

    spec: Mapping[str, Any]
    answered: bool = False


class Difference(NamedTuple):
    """An item that adds to the difference.

    Attributes:
        first: Its index in the first run, or `NOWHERE`.
        second: Its index in the second run.
        part: Its part of the difference.
        counted: True if only one of the two means counts it, for a reason that does not lie in the item.
    """

    first: int
    second: int
    part: Fraction
    counted: bool = False


def divided(
    items: tuple[Items, Items], measures: tuple[Measure, Measure]
) -> tuple[tuple[Fraction, Fraction], list[Difference]]:
    """Returns the means of a task in two runs, and the items that cause their difference; the parts sum to it exactly.

    Each measure counts at least one item.
    """
    rows = pair([mine.keys.read() for mine in items])
    partner = tuple(np.full(len(mine), NOWHERE) for mine in items)
    partner[0][rows[0]], partner[1][rows[1]] = rows[1], rows[0]
    grouped = all(measure.spec.get("metric") == GROUP_ALL and not measure.answered for measure in measures)
    means, parts = (_by_group if grouped else _by_item)(items, measures, partner)
    every, differences = [mine.places.read() for mine in items], []
    for here, row, part, counted in parts:
        places = [NOWHERE, NOWHERE]
        places[here] = int(every[here][row])
        if (other := partner[here][row]) != NOWHERE:
            places[1 - here] = int(every[1 - here][other])
        differences.append(Difference(places[0], places[1], part, counted))
    order = sorted(
        differences, key=lambda difference: (difference.first == NOWHERE, difference.first, difference.second)
    )
    return (means[0], means[1]), order


class _Part(NamedTuple):
    """The part of the difference that an item adds, by its row in one of the two runs."""

    here: int
    row: int
    part: Fraction
    counted: bool = False


_Parts = tuple[list[Fraction], list[_Part]]


def _by_item(items: tuple[Items, Items], measures: tuple[Measure, Measure], partner: tuple[Ints, ...]) -> _Parts:
    counted, values, answered = [], [], [mine.answered.read() for mine in items]
    for mine, measure, read in zip(items, measures, answered, strict=True):
        taken = np.zeros(len(mine), bool)
        taken[mine.rows(measure.spec)] = True
        counted.append(taken & read if measure.answered else taken)
        values.append(mine.values(measure.spec))
    # The last element stands for NOWHERE, which counts nothing.
    both = [
        mine & np.append(theirs, False)[other]
        for mine, theirs, other in zip(counted, counted[::-1], partner, strict=True)
    ]
    number = int(both[0].sum())
    common = [_sum(value[row]) / number if number else Fraction(0) for value, row in zip(values, both, strict=True)]
    means = [_sum(value[taken]) / int(taken.sum()) for value, taken in zip(values, counted, strict=True)]
    parts = [
        _Part(0, int(row), (exact(after) - exact(before)) / number)
        for row in np.flatnonzero(both[0])
        if (before := values[0][row]) != (after := values[1][partner[0][row]])
    ]
    for here, sign in ((0, -1), (1, 1)):
        total = int(counted[here].sum())
        for row in np.flatnonzero(counted[here] & ~both[here]):
            part = sign * (exact(values[here][row]) - common[here]) / total
            other = partner[here][row]
            same = other != NOWHERE and answered[here][row] == answered[1 - here][other]
            parts.append(_Part(here, int(row), part, bool(same)))
    return means, parts


def _by_group(items: tuple[Items, Items], measures: tuple[Measure, Measure], partner: tuple[Ints, ...]) -> _Parts:
    members: list[dict[bytes, list[int]]] = [{}, {}]
    for mine, measure, groups in zip(items, measures, members, strict=True):
        names = mine.groups.read()
        for row in mine.rows(measure.spec):
            groups.setdefault(bytes(names[row]), []).append(int(row))
    wrong = [
        {name: [row for row in group if scores[row] != 1.0] for name, group in groups.items()}
        for scores, groups in zip([mine.scores.read() for mine in items], members, strict=True)
    ]
    right = [{name: Fraction(not failing) for name, failing in groups.items()} for groups in wrong]
    both = [name for name in members[0] if name in members[1]]
    common = [sum((results[name] for name in both), Fraction(0)) / max(1, len(both)) for results in right]
    means = [sum(results.values(), Fraction(0)) / len(results) for results in right]
    parts: list[_Part] = []

    def add(here: int, rows: Sequence[int], part: Fraction) -> None:
        parts.extend(_Part(here, row, part / len(rows)) for row in rows)

    for name in both:
        if change := right[1][name] - right[0][name]:
            here = 0 if change > 0 else 1  # where the group fails
            add(here, wrong[here][name], change / len(both))
    for here, sign in ((0, -1), (1, 1)):
        for name, rows in members[here].items():
            if name not in members[1 - here]:
                add(here, rows, sign * (right[here][name] - common[here]) / len(members[here]))
    return means, parts


def exact(value: float) -> Fraction:
    """Returns the exact value of a float as a fraction."""
    return Fraction(float(value))


def _sum(values: Floats) -> Fraction:
    distinct, counts = np.unique(values, return_counts=True)
    return sum((exact(value) * int(count) for value, count in zip(distinct, counts, strict=True)), Fraction(0))


def apportioned(parts: Sequence[Fraction], total: int) -> list[int]:
    """Rounds parts to integers that sum to `total`, the largest remainders up. A part of 0 stays 0.

    The parts sum to `total` except for rounding; it is 0 if all parts are.
    """
    rounded = [part.__floor__() for part in parts]
    places = sorted((at for at, part in enumerate(parts) if part), key=lambda at: rounded[at] - parts[at])
    rest = total - sum(rounded)
    for at in islice(cycle(places if rest > 0 else places[::-1]), abs(rest)):
        rounded[at] += 1 if rest > 0 else -1
    return rounded
