"""Means and their confidence intervals as MetricResult; docs/read-the-numbers.md explains the choice of interval."""

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
        values: One number per item.
        clusters: The cluster of each item; None where all are independent.
        level: Coverage.
        within: Bounds of the mean.

    Returns:
        None if the spread is unknown.
    """
    sums, sizes = gathered(values, clusters)
    interval = stats.mean_interval(sums, sizes, binary=stats.is_binary(values), level=level, within=within)
    if interval is None:
        return None
    # Rounded, since sums differ in the last digit between processors, and results must not.
    low, high = (round(end, 10) + 0.0 for end in (interval.low, interval.high))
    return pb.Interval(low=low, high=high, level=level, method=interval.method)


def gathered(values: Floats, clusters: Ints | None) -> tuple[Floats, Floats]:
    """Returns sum and number of items by cluster; without clusters, the values and ones."""
    # Rising numbers mean one item per cluster, the common case: sums are the values, and sorting is saved.
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
    """Returns a mean with its denominators and its interval, or the reason why it has none.

    Args:
        values: The numbers of the denominator.
        clusters: The cluster of each number; None where all are independent.
        level: Coverage of the interval.
        within: Bounds of the mean.
        answered: The numbers of answered items; None if the metric does not distinguish them.
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
