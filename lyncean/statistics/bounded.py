"""Interval of the mean of few bounded values, which assumes nothing else of their distribution."""

from __future__ import annotations

import math
from statistics import NormalDist

from lyncean.arrays import Floats, np

DRAWS = 10_000
"""Resamples: the level of an end is met within 0.3 points."""
_NORMAL = NormalDist()
_HALVINGS = 50


def gaffke(sums: Floats, sizes: Floats, level: float, seed: int = 0) -> tuple[float, float]:
    """Returns an interval of sum(sums) / sum(sizes), for values from 0 to 1.

    The observed clusters and one more, which has the lowest possible values for the lower end and the highest ones
    for the upper end, get weights that are uniform over the simplex: so many clusters may have missed the rare values
    far from the rest that Student's t and a bootstrap know nothing of. Of independent items that are 0 or 1 it is
    Clopper and Pearson's. The cluster more is as large as the mean one.

    Source: Gaffke, Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
    variable, Mathematical Methods of Statistics 14 (2005), 451-467; as an interval Learned-Miller and Thomas,
    arXiv:1905.06208 (2019). That it always covers is their conjecture; bench/bench_intervals.py has the simulations.

    Args:
        sums: Sum of the values of each cluster.
        sizes: Values of each cluster.
        level: Coverage.
        seed: Of the generator.
    """
    # Clusters of the same sum and size are exchangeable: only their weight together counts.
    (sums, sizes), copies = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    random, size = np.random.default_rng(seed), float(sizes @ copies / copies.sum())
    weights = random.standard_gamma(copies, size=(DRAWS, len(copies)))
    extra = random.standard_exponential(DRAWS) * size
    inner, total = weights @ sums, weights @ sizes + extra
    low = np.quantile(inner / total, (1 - level) / 2)
    return float(low), float(np.quantile((inner + extra) / total, (1 + level) / 2))


def gaffke_low(sums: Floats, sizes: Floats, chance: float) -> float:
    """Returns the lower end of `gaffke` for a chance that its draws do not resolve.

    The weights are exponential variates over their sum, so that the weighted mean is below t where a sum of such
    variates is below 0. The saddlepoint approximation meets its chance within 7%, and errs to the safe side.

    Source: Lugannani and Rice, Saddle point approximation for the distribution of the sum of independent random
    variables, Advances in Applied Probability 12 (1980), 475-490.

    Args:
        sums: Sum of the values of each cluster.
        sizes: Values of each cluster.
        chance: Of the mean being lower.
    """
    (sums, sizes), copies = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    size, counts = float(sizes @ copies / copies.sum()), np.append(copies, 1)
    low, high = 0.0, float(sums @ copies / (sizes @ copies))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _below_zero(np.append(sums - middle * sizes, -middle * size), counts) < chance:
            low = middle
        else:
            high = middle
    return low


def _below_zero(factors: Floats, counts: Floats) -> float:
    """Returns the chance that a sum of exponential variates times factors is negative; 1 where half or more is."""
    if factors @ counts <= 0:
        return 1.0
    low, high = float(1 / factors.min()), 0.0
    for _ in range(_HALVINGS):
        saddle = (low + high) / 2
        if counts @ (factors / (1 - saddle * factors)) < 0:
            low = saddle
        else:
            high = saddle
    rest = 1 - saddle * factors
    root = -math.sqrt(2 * float(counts @ np.log(rest)))
    scaled = saddle * math.sqrt(float(counts @ (factors / rest) ** 2))
    return _NORMAL.cdf(root) + _NORMAL.pdf(root) * (1 / root - 1 / scaled)
