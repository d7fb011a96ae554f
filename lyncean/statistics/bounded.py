"""Interval of the mean of few bounded values, which assumes nothing else of their distribution."""

from __future__ import annotations

from lyncean.arrays import Floats, np

DRAWS = 10_000
"""Resamples: the level of an end is met within 0.3 points."""


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
