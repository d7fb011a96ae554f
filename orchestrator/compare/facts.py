"""Compares facts of items other than scores, such as the calls of a trajectory, in two runs with tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from msgspec import Struct

from lyncean.statistics.intervals import mean_interval
from lyncean.vocabulary.keys import split_repeat
from orchestrator.run_folder.files import VERDICTS
from orchestrator.run_folder.reader import Run
from orchestrator.run_folder.scanning import scan
from orchestrator.run_folder.tools_used import FIELD


@dataclass(frozen=True, slots=True)
class FactChange:
    """The mean of a fact over the items that have it in both runs.

    Attributes:
        task: The task.
        fact: The fact's name.
        first: Mean of the first run.
        second: Mean of the second.
        low: Lower end of the difference's 95% interval, over items with their repeats; None if all change alike.
        high: Upper end.
        items: Number of these items.
    """

    task: str
    fact: str
    first: float
    second: float
    low: float | None
    high: float | None
    items: int

    @property
    def words(self) -> str:
        """A line for people: "zoom: calls 2.6 → 3.1, +0.5 [+0.2, +0.8] over 40 items"."""
        interval = "" if self.low is None else f" [{self.low:+.4g}, {self.high:+.4g}]"
        change = f"{self.second - self.first:+.4g}{interval} over {self.items:,} items"
        return f"{self.task}: {self.fact.replace('_', ' ')} {self.first:.4g} → {self.second:.4g}, {change}"


class _Line(Struct):
    key: str
    task: str = ""
    facts: dict[str, float] = {}


def changes(first: Run, second: Run) -> list[FactChange]:
    """Returns the changes of facts between two runs; empty unless both have tools.

    Raises:
        RunLogError: A verdict is damaged.
    """
    if not (first.identity.get(FIELD) and second.identity.get(FIELD)):
        return []
    ours, theirs = _read(first), _read(second)
    pairs: dict[tuple[str, str], list[tuple[str, float, float]]] = defaultdict(list)
    for key in sorted(ours.keys() & theirs.keys()):
        one, other = ours[key], theirs[key]
        for fact in one.facts.keys() & other.facts.keys():
            pairs[one.task, fact].append((split_repeat(key)[0], one.facts[fact], other.facts[fact]))
    return [_change(task, fact, values) for (task, fact), values in sorted(pairs.items())]


def _read(run: Run) -> Mapping[str, _Line]:
    return {line.key: line for _, line in scan(run.path / VERDICTS, _Line) if line.facts}


def _change(task: str, fact: str, values: list[tuple[str, float, float]]) -> FactChange:
    clusters: dict[str, list[float]] = defaultdict(list)
    for name, one, other in values:
        clusters[name].append(other - one)
    sums, sizes = (
        np.array([measure(differences) for differences in clusters.values()], float) for measure in (sum, len)
    )
    interval = mean_interval(sums, sizes, binary=False)
    low, high = (None, None) if interval is None else (float(interval.low), float(interval.high))
    first, second = (float(np.mean([pair[side] for pair in values])) for side in (1, 2))
    return FactChange(task, fact, first, second, low, high, len(values))
