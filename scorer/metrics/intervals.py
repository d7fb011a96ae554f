"""Means and their confidence intervals as results carry them. docs/read-the-numbers.md says when each is right."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lyncean.arrays import Floats, Ints, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics import intervals as stats
from lyncean.statistics.intervals import UNBOUNDED
from scorer.metrics.table import numbered


def of_mean(
    values: Floats, clusters: Ints | None, level: float, within: tuple[float, float] = UNBOUNDED
) -> pb.Interval | None:
    """Returns an interval around the mean of values, as `lyncean.statistics.intervals.mean_interval` computes it.

    Args:
        values: One number an item.
        clusters: The cluster of each item; None where all are independent.
        level: Coverage.
        within: Bounds of the mean.

    Returns:
        None where the spread is unknown.
    """
    sums, sizes = gathered(values, clusters)
    found = stats.mean_interval(sums, sizes, binary=stats.is_binary(values), level=level, within=within)
    if found is None:
        return None
    # Sums in another order of instructions differ in the last digit; the results must not.
    low, high = (round(end, 10) + 0.0 for end in (found.low, found.high))
    return pb.Interval(low=low, high=high, level=level, method=found.method)


def gathered(values: Floats, clusters: Ints | None) -> tuple[Floats, Floats]:
    """Returns the sum and the number of items of each cluster; of each item where there are none."""
    # Items that are clusters of their own mostly stand in the order of their numbers: nothing is to be gathered.
    if clusters is None or bool((clusters[1:] > clusters[:-1]).all()):
        return values, np.ones(len(values))
    sums, sizes = stats.clusters(values[None], numbered(clusters))
    return sums[0], sizes


def mean_result(
    values: Floats | Sequence[float],
    clusters: Ints | Sequence[int] | None,
    level: float,
    within: tuple[float, float] = UNBOUNDED,
    answered: Floats | Sequence[float] | None = None,
) -> pb.MetricResult:
    """Returns a mean with its interval, or why it has none, and denominators.

    Args:
        values: One number for each of the denominator.
        clusters: The cluster of each; None where all are independent.
        level: Coverage of the interval.
        within: Bounds of the mean.
        answered: The same over what was answered; None where that is no other question.
    """
    result = pb.MetricResult(denominator=len(values))
    if len(values):
        result.value = math.fsum(values) / len(values)
        numbers = None if clusters is None else np.asarray(clusters)
        interval = of_mean(np.asarray(values, np.float64), numbers, level, within)
        if interval:
            result.interval.CopyFrom(interval)
        else:
            result.details["no_interval"] = "all samples have the same value, or are in one group"
    if answered is not None and len(answered):
        result.value_answered = math.fsum(answered) / len(answered)
        result.denominator_answered = len(answered)
    return result
