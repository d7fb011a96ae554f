"""Averages over datasets and dimensions, and ranks among models, as ReForm-Eval's tables have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.benchmarks.reform.datasets import DATASETS, DIMENSIONS, GENERATION
from orchestrator.run_folder.metrics import metric_results, overall

_SAME = 1e-9
"""Means that differ by less are the same: 2, 2 and 38 come to what 14, 14 and 14 do, but for their last digit."""

Scores = Mapping[str, float]
"""Task -> score in per cent (captions: CIDEr x 100)."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The means and ranks of one model.

    Attributes:
        dimensions: Mean over a dimension's datasets, in per cent; None where one that others have is missing.
        ranks: Its rank in each dimension, 1 for the best; models that tie share the better rank.
        average: Mean over the dimensions; None unless all of them are there.
        average_rank: Mean of the ranks; likewise.
        missing: Tasks that other models have and this one lacks.
    """

    dimensions: Mapping[str, float | None]
    ranks: Mapping[str, int | None] = field(default_factory=dict)
    average: float | None = None
    average_rank: float | None = None
    missing: tuple[str, ...] = ()


def scores_of(results: Mapping[str, Any]) -> dict[str, float]:
    """Returns the scores of ReForm-Eval's tasks in a run's `results.json`, over all planned items."""
    scores = {}
    for metric in overall(metric_results(results.get("tasks", {}))):
        dataset = DATASETS.get(metric.task)
        if dataset is None or metric.value is None:
            continue
        wanted = "CIDEr" if dataset.formulations[0] == GENERATION else "Accuracy"
        # "CIDEr (PTB tokens)": the name says which words were compared.
        if metric.name.split(" (")[0] == wanted:
            scores[metric.task] = metric.value * (1 if metric.unit == "percent" else 100)
    return scores


def standings(models: Mapping[str, Scores]) -> dict[str, Standing]:
    """Returns the means and ranks of several models.

    A dimension's score is the unweighted mean over its datasets, the benchmark's that over the dimensions; the
    published average ranks are means of the ranks in each dimension. Only datasets and dimensions that some model has
    count, so that likelihood runs are compared over the six dimensions that have it.
    """
    tasks = [task for task in DATASETS if any(task in scores for scores in models.values())]
    present = [key for key in DIMENSIONS if any(DATASETS[task].dimension == key for task in tasks)]
    means = {name: {key: _mean(scores, tasks, key) for key in present} for name, scores in models.items()}
    by_model = {}
    for name, scores in models.items():
        ranks = {key: _rank(means[name][key], [means[other][key] for other in models]) for key in present}
        by_model[name] = Standing(
            means[name],
            ranks,
            _average(list(means[name].values())),
            _average(list(ranks.values())),
            tuple(task for task in tasks if task not in scores),
        )
    return by_model


def _mean(scores: Scores, tasks: Sequence[str], dimension: str) -> float | None:
    return _average([scores.get(task) for task in tasks if DATASETS[task].dimension == dimension])


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _rank(value: float | None, others: Sequence[float | None]) -> int | None:
    if value is None:
        return None
    return 1 + sum(other is not None and other > value + _SAME for other in others)
