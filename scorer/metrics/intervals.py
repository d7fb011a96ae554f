"""Confidence intervals, with the method named. docs/read-the-numbers.md says when each is right."""

from __future__ import annotations

import numpy as np

from lynceus.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.table import Floats, Ints

DRAWS = 2000
"""Bootstrap samples an interval is made of."""

MOST_CELLS = 4_000_000
"""Numbers drawn at once: bounds the memory of a bootstrap at 32 MB."""

MANY = 10_000
"""Distinct clusters from which on the central limit is as good as any resampling."""


def of_share(right: int, of: int, level: float) -> pb.Interval | None:
    """Returns Wilson's interval of a proportion, after scipy.stats; None for none of none."""
    from scipy import stats

    if of == 0:
        return None
    ends = stats.binomtest(right, of).proportion_ci(level, method="wilson")
    return _interval(ends.low, ends.high, level, "wilson")


def of_mean(values: Floats, clusters: Ints | None, level: float) -> pb.Interval | None:
    """Returns an interval around the mean of values.

    Values that are all 0 or 1 and independent get Wilson's. Otherwise whole clusters (single
    values where there are none) are drawn with replacement, and the interval holds the middle
    of the means of such draws. The draws are seeded and do not depend on the order of values.

    Args:
        values: One number an item.
        clusters: The cluster of each item; None where all are independent.
        level: Coverage.

    Returns:
        None where there is no spread to learn from: fewer than two clusters, or values that
        are neither 0 nor 1 and all alike.
    """
    sums: Floats = values
    sizes: Floats = np.ones(len(values))
    if clusters is not None:
        numbers = np.unique(clusters, return_inverse=True)[1]
        sums = np.bincount(numbers, values).astype(np.float64)
        sizes = np.bincount(numbers).astype(np.float64)
    clustered = bool(sizes.max(initial=1.0) > 1)
    binary = bool(np.isin(values, (0.0, 1.0)).all())
    if binary and not clustered:
        return of_share(int(values.sum()), len(values), level)
    if len(sums) < 2:
        return None
    if values.min() == values.max():
        if not binary:
            return None
        # Draws of one value have no spread, yet so many clusters are no proof of 0 or 1.
        right = len(sums) if values[0] else 0
        found = of_share(right, len(sums), level)
        assert found is not None
        found.method = "wilson over clusters"
        return found
    noun = "cluster bootstrap" if clustered else "bootstrap"
    kinds, copies = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    if len(copies) > MANY:
        return _normal(sums, sizes, level, clustered)
    low, high = np.quantile(_draws(kinds, copies), [(1 - level) / 2, (1 + level) / 2])
    return _interval(low, high, level, f"{noun}, {DRAWS} draws")


def _draws(kinds: Floats, copies: Ints) -> Floats:
    """Returns the means of DRAWS resamples of clusters.

    Clusters with the same sum and size are interchangeable, so how often each kind is drawn is
    multinomial: the same distribution as drawing clusters one by one, at a fraction of the work.
    """
    random = np.random.default_rng(0)
    total = int(copies.sum())
    step = max(1, MOST_CELLS // len(copies))
    means = []
    for start in range(0, DRAWS, step):
        drawn = random.multinomial(total, copies / total, size=min(step, DRAWS - start))
        means.append((drawn * kinds[0]).sum(axis=1) / (drawn * kinds[1]).sum(axis=1))
    return np.concatenate(means)


def _normal(sums: Floats, sizes: Floats, level: float, clustered: bool) -> pb.Interval:
    """Returns the large-sample interval of a ratio of means (Cochran, Sampling Techniques, 1977, 6.4)."""
    from scipy import stats

    mean = sums.sum() / sizes.sum()
    error = stats.sem(sums - mean * sizes) / sizes.mean()
    low, high = stats.norm.interval(level, loc=mean, scale=error)
    return _interval(low, high, level, "cluster-robust normal" if clustered else "normal")


def _interval(low: float, high: float, level: float, method: str) -> pb.Interval:
    # Sums in another order of instructions differ in the last digit; the figures must not.
    return pb.Interval(low=round(float(low), 10), high=round(float(high), 10), level=level, method=method)
