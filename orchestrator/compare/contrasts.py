"""Compares a suite's tasks that are variants of one benchmark on the same rows, model by model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lyncean.statistics import significance
from orchestrator.compare import statistics
from orchestrator.compare.rows import family, matched
from orchestrator.compare.scores import Scores
from orchestrator.compare.statistics import Paired


@dataclass(frozen=True, slots=True)
class Contrast:
    """One model in two tasks, item by item.

    Attributes:
        pair: Their first metric over the rows of both; its p-value is adjusted over the contrasts of a table (Holm).
    """

    model: str
    tasks: tuple[str, str]
    pair: Paired

    @property
    def words(self) -> list[str]:
        """Model, tasks, both means, their difference with its interval, rows."""
        pair = self.pair
        means = [f"{100 * mean:.1f}" for mean in (pair.first, pair.second)]
        change = f"{100 * pair.difference:+.1f} {pair.interval}".rstrip()
        return [self.model, " → ".join(self.tasks), *means, change, f"{pair.items:,}"]

    def as_json(self) -> dict[str, Any]:
        """Returns the contrast for machines."""
        pair = self.pair
        entry = {"model": self.model, "tasks": list(self.tasks), "metric": pair.step.metric, "items": pair.items}
        means = {"first": pair.first, "second": pair.second, "difference": pair.difference}
        return {**entry, **means, "low": pair.low, "high": pair.high, "p": pair.adjusted, "test": pair.test}


HEAD = ("model", "tasks", "first", "second", "difference", "n", "p (Holm)")


def contrasts(complete: Sequence[tuple[str, Scores]]) -> list[Contrast]:
    """Returns the contrast of every two tasks of one benchmark that a model ran on the same rows.

    Args:
        complete: Pairs of a model and the scores of one of its runs.
    """
    results = []
    for (model, one), (other_model, other) in itertools.combinations(complete, 2):
        if model == other_model and len(one.items) == len(other.items) == 1 and (pair := _paired(one, other)):
            results.append(Contrast(model, (next(iter(one.items)), next(iter(other.items))), pair))
    adjusted = significance.holm([contrast.pair.p for contrast in results if contrast.pair.p is not None])
    tested = iter(adjusted)
    return [
        contrast if contrast.pair.p is None else replace(contrast, pair=replace(contrast.pair, adjusted=next(tested)))
        for contrast in results
    ]


def _paired(one: Scores, other: Scores) -> Paired | None:
    first, second = next(iter(one.items)), next(iter(other.items))
    if first == second or family(first) != family(second) or not family(first):
        return None
    units = statistics.shared(*matched(one, other))
    return next(iter(statistics.compare_units(units)), None) if units else None
