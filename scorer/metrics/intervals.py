"""Confidence intervals, with the method named. docs/read-the-numbers.md says when each is right."""

from __future__ import annotations

import math

import numpy as np

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.table import Bools, Floats, Ints, numbered

DRAWS = 2000
"""Bootstrap samples an interval is made of."""

FEW = 30
"""Clusters below which a bootstrap is known to be too narrow."""

MANY = 10_000
"""Distinct clusters from which on the central limit is as good as any resampling."""

_MOST_CELLS = 4_000_000  # numbers drawn at once: bounds the memory of a bootstrap at 32 MB

_NO_SPREAD = 1e-12  # a standard error that is rounding and nothing else

SHARE = (0.0, 1.0)
"""What a mean of shares can be."""

UNBOUNDED = (-math.inf, math.inf)


def of_mean(
    values: Floats, clusters: Ints | None, level: float, within: tuple[float, float] = UNBOUNDED
) -> pb.Interval | None:
    """Returns an interval around the mean of values.

    Scores that are all 0 or 1 get Wilson's, at the effective sample size where items come in
    clusters. Partial credit gets a bootstrap over clusters (single items where there are
    none), Student's t below FEW of them and the normal interval from MANY on. Draws are
    seeded, and nothing depends on the order of items.

    Args:
        values: One number an item.
        clusters: The cluster of each item; None where all are independent.
        level: Coverage.
        within: What the mean can be: Student's t knows of no bounds.

    Returns:
        None where there is no spread to learn from: no items, one cluster of several items,
        or partial credit that is the same in every cluster.
    """
    sums, sizes = gathered(values, clusters)
    clustered = bool(sizes.max(initial=1.0) > 1)
    binary = bool(np.isin(values, (0.0, 1.0)).all())
    if len(values) == 0 or (clustered and len(sums) < 2):
        return None
    if binary:
        return _wilson(sums, sizes, level) if clustered else of_share(values == 1.0, level)
    if len(sums) < 2 or standard_error(sums, sizes) < _NO_SPREAD:
        return None
    over = "clusters" if clustered else "items"
    kinds, copies = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    if len(sums) < FEW or len(copies) > MANY:
        return _student(sums, sizes, level, over, within)
    low, high = np.quantile(_draws(kinds, copies), [(1 - level) / 2, (1 + level) / 2])
    return _interval(low, high, level, f"bootstrap over {over}, {DRAWS} draws")


def gathered(values: Floats, clusters: Ints | None) -> tuple[Floats, Floats]:
    """Returns the sum and the number of items of each cluster; of each item where there are none."""
    if clusters is None:
        return values, np.ones(len(values))
    numbers = numbered(clusters)
    return np.bincount(numbers, values).astype(np.float64), np.bincount(numbers).astype(np.float64)


def of_share(right: Bools, level: float) -> pb.Interval:
    """Returns Wilson's interval of the share of independent items that are right; at least one item."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(int(right.sum()), len(right), 1 - level, method="wilson")
    return _interval(low, high, level, "wilson")


def standard_error(sums: Floats, sizes: Floats) -> float:
    """Returns the standard error of sum(sums) / sum(sizes) over clusters, linearized.

    Source: Cochran, Sampling Techniques, 3rd ed. 1977, section 6.4.
    """
    from scipy import stats

    return float(stats.sem(sums - sums.sum() / sizes.sum() * sizes) / sizes.mean())


def effective_size(sums: Floats, sizes: Floats) -> float:
    """Returns how many independent items would know a share as well as these clusters do.

    Where all items are right, or none is, as many as there are clusters; never more than items.
    """
    share, number, error = sums.sum() / sizes.sum(), float(sizes.sum()), standard_error(sums, sizes)
    if share in (0.0, 1.0):
        return float(len(sums))
    if error < _NO_SPREAD:
        return number
    return float(min(share * (1 - share) / error**2, number))


def _wilson(sums: Floats, sizes: Floats, level: float) -> pb.Interval:
    """Returns Wilson's interval at the effective sample size, corrected for degrees of freedom.

    Source: Korn and Graubard, Survey Methodology 24 (1998), 193-201.
    """
    from scipy import stats
    from statsmodels.stats.proportion import proportion_confint

    share, tail = sums.sum() / sizes.sum(), (1 + level) / 2
    effective = effective_size(sums, sizes) * (stats.norm.ppf(tail) / stats.t.ppf(tail, len(sums) - 1)) ** 2
    low, high = proportion_confint(share * effective, effective, 1 - level, method="wilson")
    return _interval(low, high, level, "wilson over clusters")


def _student(sums: Floats, sizes: Floats, level: float, over: str, within: tuple[float, float]) -> pb.Interval:
    from scipy import stats

    mean = sums.sum() / sizes.sum()
    low, high = stats.t.interval(level, len(sums) - 1, loc=mean, scale=standard_error(sums, sizes))
    return _interval(max(low, within[0]), min(high, within[1]), level, f"t over {over}")


def _draws(kinds: Floats, copies: Ints) -> Floats:
    """Returns the means of DRAWS resamples of clusters.

    Clusters with the same sum and size are interchangeable, so how often each kind is drawn is
    multinomial: the same distribution as drawing clusters one by one, at a fraction of the work.
    """
    random = np.random.default_rng(0)
    total = int(copies.sum())
    step = max(1, _MOST_CELLS // len(copies))
    means = []
    for start in range(0, DRAWS, step):
        drawn = random.multinomial(total, copies / total, size=min(step, DRAWS - start))
        means.append((drawn * kinds[0]).sum(axis=1) / (drawn * kinds[1]).sum(axis=1))
    return np.concatenate(means)


def _interval(low: float, high: float, level: float, method: str) -> pb.Interval:
    # Sums in another order of instructions differ in the last digit; the figures must not.
    return pb.Interval(low=round(float(low), 10) + 0.0, high=round(float(high), 10) + 0.0, level=level, method=method)
