"""Multiple comparisons: each slice against the rest, p-values adjusted for the number of slices."""

from __future__ import annotations

from collections.abc import Sequence

from lyncean.arrays import Bools, Floats, Ints, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics import distributions, intervals as stats, significance
from scorer.metrics.table import numbered

DRAWS = 9_999
"""Permutations of a p-value; more are drawn if these are too coarse for the number of slices."""

KINDS = 128
"""Most different clusters that are permuted: with more, the sum over a slice is close to normal, and faster."""


def note(metrics: Sequence[pb.MetricResult], members: Sequence[Ints], values: Floats, clusters: Ints | None) -> None:
    """Writes `details.against_rest` into the metrics of one slicing.

    p_value is of the hypothesis that the slice's items and all others have the same mean;
    p_holm bounds the chance of any false finding among the slices (Holm 1979),
    p_benjamini_hochberg the share of false ones among the findings (1995).

    Args:
        metrics: The results, one per slice.
        members: The rows of each slice.
        values: One number per item, over all slices and the items outside of them.
        clusters: The cluster of each item; None where all are independent.
    """
    p_value_of = {}
    numbers = None if clusters is None else numbered(clusters)
    for number, rows in enumerate(members):
        inside = np.zeros(len(values), bool)
        inside[rows] = True
        p_value = against_rest(inside, values, numbers, len(members))
        if p_value is not None:
            p_value_of[number] = p_value
    if not p_value_of:
        return
    p_values = list(p_value_of.values())
    rows_of = zip(
        p_value_of, p_values, significance.holm(p_values), significance.benjamini_hochberg(p_values), strict=True
    )
    for number, p_value, p_holm, p_benjamini_hochberg in rows_of:
        metrics[number].details.update(
            {
                "against_rest": {
                    "p_value": _rounded(p_value),
                    "p_holm": _rounded(p_holm),
                    "p_benjamini_hochberg": _rounded(p_benjamini_hochberg),
                    "comparisons": len(p_value_of),
                }
            }
        )


def against_rest(inside: Bools, values: Floats, clusters: Ints | None, comparisons: int = 1) -> float | None:
    """Returns the two-sided p-value of the difference between the items inside and the others.

    Independent scores of 0 and 1 get Fisher's exact test. If no cluster is on both sides, clusters are permuted: a
    robust variance of few clusters is far too small, and 0 if they are alike. Otherwise the value is regressed on
    being inside, with the covariance of Liang and Zeger (Biometrika 73, 1986) over clusters and t with one degree of
    freedom less than there are clusters.

    Args:
        inside: The mask of the slice's items.
        values: One number per item.
        clusters: The number of each item's cluster, from 0 without a gap; None where all are
            independent.
        comparisons: Number of p-values that are adjusted together: more need a finer p-value.

    Returns:
        None if one side has fewer than two clusters, or all values are equal.
    """
    others = ~inside
    if not inside.any() or not others.any():
        return None
    numbers = np.arange(len(values)) if clusters is None else clusters
    count = int(numbers.max()) + 1
    if stats.is_binary(values) and count == len(values):
        right, other = int(values[inside].sum()), int(values[others].sum())
        return significance.fisher(right, int(inside.sum()) - right, other, int(others.sum()) - other)
    if min(np.count_nonzero(np.bincount(numbers[side])) for side in (inside, others)) < 2:
        return None
    within = np.bincount(numbers, inside)
    if ((within == 0) | (within == np.bincount(numbers))).all():
        pulls = np.bincount(numbers, values - values.mean()).astype(np.float64)
        return _permuted(pulls, within > 0, comparisons)
    means = values[inside].mean(), values[others].mean()
    pull = np.where(inside, (values - means[0]) / inside.sum(), -(values - means[1]) / others.sum())
    error = float(np.sqrt((np.bincount(numbers, pull) ** 2).sum() * count / (count - 1)))
    if error < 1e-12:
        return None
    return distributions.t_p_value(float(means[0] - means[1]) / error, count - 1)


def _permuted(pulls: Floats, inside: Bools, comparisons: int) -> float | None:
    """Returns the p-value of a slice's clusters against as many random clusters.

    `pulls` holds, by cluster, the sum of its items' differences from the mean of all items.
    """
    # Clusters of equal pull are exchangeable, so the number of each kind inside is hypergeometric: a permutation
    # then costs one draw per kind and not one per cluster.
    kinds, kind, copies = np.unique(np.round(pulls, 12), return_inverse=True, return_counts=True)
    if len(kinds) < 2:
        return None
    observed, number, count = abs(kinds[kind[inside]].sum()), int(inside.sum()), len(pulls)
    if len(kinds) > KINDS:
        spread = np.sqrt((kinds**2 @ copies) / (count - 1) * number * (count - number) / count)
        return distributions.t_p_value(float(observed / spread), count - 2)
    random = np.random.default_rng(0)
    as_large = draws = 0
    for wanted in (DRAWS, 400 * comparisons):
        for size in stats.batches(len(kinds), wanted - draws):
            if wanted > DRAWS and as_large >= significance.FINE:
                break
            drawn = random.multivariate_hypergeometric(copies, number, size=size, method="marginals")
            as_large += int((np.abs(drawn @ kinds) >= observed - 1e-9).sum())
            draws += size
    return (as_large + 1) / (draws + 1)


def _rounded(p_value: float) -> float:
    return float(f"{p_value:.6g}")
