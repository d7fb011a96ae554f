"""Tests all tasks of two runs together: which tasks fell, and how far each may have fallen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lyncean.statistics import falls, intervals as stats
from orchestrator.compare.items import Floats, Units
from orchestrator.compare.scores import Step

_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Fall:
    """The fall of one task, tested together with several others.

    Attributes:
        p: One-sided p-value that the task did not fall, by the step-down max-T test over all tasks.
        low: Lower end of the interval of its change. The intervals of all tasks hold together in 95% of comparisons;
            None if the metric is not a share.
    """

    p: float
    low: float | None


def of_tasks(units: Mapping[Step, Sequence[Units]]) -> dict[Step, Fall]:
    """Returns the fall of each task, whose units in the first and in the second run have the same order.

    A single task has none: its own test and interval say all.
    """
    if len(units) < 2:
        return {}
    # Sorted tasks make the draws of the signs independent of the order in the runs.
    steps = sorted(units, key=str)
    p_values = falls.step_down([_changes(units[step])[0] for step in steps])
    bounded = {step for step in steps if all(stats.bounds(side.scores) == stats.SHARE for side in units[step])}
    lows = {step: _lowest(units[step], _ALPHA / len(bounded)) for step in bounded}
    return {step: Fall(p, lows.get(step)) for step, p in zip(steps, p_values, strict=True)}


def _changes(units: Sequence[Units]) -> tuple[falls.Changes, Floats]:
    """Returns the change of each cluster, and the clusters' sizes."""
    clusters, numbers = np.unique(units[0].clusters, return_inverse=True)
    sums, sizes = stats.clusters([units[1].scores - units[0].scores], numbers)
    return falls.Changes(clusters, sums[0]), sizes


def _lowest(units: Sequence[Units], chance: float) -> float:
    one, other = units[0].scores, units[1].scores
    changes, sizes = _changes(units)
    binary = stats.is_binary(one) and stats.is_binary(other)
    return falls.lowest_change(changes.sums, sizes, float((one != other).mean()) if binary else None, chance)
