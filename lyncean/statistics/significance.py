"""Tests of significance, and adjustments of their p-values for several comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lyncean.arrays import Floats, Ints, np
from lyncean.statistics.distributions import chi_squared_p_value, unimodal
from lyncean.statistics.intervals import DRAWS, batches

FINE = 20
"""Resolution of a permutation test: its smallest p-value is this many times below its share of the level; as many draws
at or above the observed value make further draws unnecessary."""

_TIE = 1 + 1e-10
"""Probabilities closer than this are the same, rounded differently."""


def mcnemar(gained: int, lost: int) -> float:
    """Returns the exact two-sided p-value of McNemar's test: a fair coin over the discordant pairs."""
    number = gained + lost
    counts = np.arange(number)
    tail = unimodal((number - counts) / (counts + 1))[: min(gained, lost) + 1]
    return min(1.0, 2 * float(tail.sum()))


def at_least(successes: int, n: int, share: float) -> float:
    """Returns the probability of at least that many successes in `n` independent trials; 0 < `share` < 1."""
    counts = np.arange(n)
    return float(unimodal((n - counts) / (counts + 1) * share / (1 - share))[successes:].sum())


def fisher(right: int, wrong: int, other_right: int, other_wrong: int) -> float:
    """Returns the two-sided p-value of Fisher's exact test of a 2 x 2 table."""
    first, second, column = right + wrong, other_right + other_wrong, right + other_right
    low = max(0, column - second)
    counts = np.arange(low, min(first, column), dtype=np.float64)
    chances = unimodal((first - counts) * (column - counts) / ((counts + 1) * (second - column + counts + 1)))
    return min(1.0, float(chances[chances <= chances[right - low] * _TIE].sum()))


def homogeneity(counts: Ints) -> float | None:
    """Returns the p-value of Stuart and Maxwell's test: rows and columns are distributed alike.

    Args:
        counts: A square table. Categories that occur in neither are left out.

    Returns:
        None if the covariance matrix is singular.
    """
    occurs = (counts.sum(axis=0) + counts.sum(axis=1)) > 0
    square = counts[np.ix_(occurs, occurs)].astype(np.float64)
    if len(square) < 2:
        return 1.0
    number = square.sum()
    square /= number
    rows, columns = square.sum(axis=1)[:-1], square.sum(axis=0)[:-1]
    square = square[:-1, :-1]
    covariance = -(square + square.T)
    np.fill_diagonal(covariance, rows + columns - 2 * np.diag(square))
    try:
        statistic = float(number * (columns - rows) @ np.linalg.solve(covariance, columns - rows))
    except np.linalg.LinAlgError:
        return None
    return None if math.isnan(statistic) else chi_squared_p_value(statistic, len(square))


def sign_flip(differences: Floats, comparisons: int = 1, *, seed: int = 0) -> tuple[float, int]:
    """Permutation test that flips the signs of clusters' differences at random.

    Args:
        differences: Difference of each cluster.
        comparisons: Number of tests that Holm's correction covers. The smallest possible p-value, 1 / (draws + 1), must
            be far below each test's share of 5 %, so a small first result leads to more draws.
        seed: Seed of the generator.

    Returns:
        The two-sided p-value, and the number of draws.
    """
    # fsum rounds exactly, so the order of the clusters does not matter.
    observed = abs(math.fsum(differences))
    if observed == 0:
        return 1.0, DRAWS
    random = np.random.default_rng(seed)
    # Clusters with equal differences are exchangeable: the number that keep their sign is binomial.
    values, counts = np.unique(np.abs(differences[differences != 0]), return_counts=True)

    def as_large(number: int) -> int:
        total = 0
        for batch in batches(len(values), number):
            kept = random.binomial(counts, 0.5, size=(batch, len(values)))
            total += int((np.abs((2.0 * kept - counts) @ values) >= observed - 1e-12).sum())
        return total

    larger, draws, wanted = as_large(DRAWS), DRAWS, round(FINE * comparisons / 0.05)
    if wanted > draws and larger < FINE:
        larger, draws = larger + as_large(wanted - draws), wanted
    return (larger + 1) / (draws + 1), draws


def holm(values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted by Holm's step-down procedure (1979), for the chance of any false finding."""
    adjusted, largest = [1.0] * len(values), 0.0
    for rank, at in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[at]))
        adjusted[at] = largest
    return adjusted


def benjamini_hochberg(values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted by Benjamini and Hochberg (1995), for the share of false findings."""
    adjusted, smallest, number = [1.0] * len(values), 1.0, len(values)
    for rank, at in reversed(list(enumerate(sorted(range(number), key=values.__getitem__), 1))):
        smallest = min(smallest, values[at] / (rank / number))
        adjusted[at] = smallest
    return adjusted
