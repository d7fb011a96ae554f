"""Intervals of few scores with partial credit: they cover, and are Clopper and Pearson's where scores are 0 or 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats as scipy_stats

from lyncean.arrays import Floats
from lyncean.statistics import intervals as stats
from lyncean.statistics.bounded import gaffke

SCORES: dict[str, tuple[Callable[[np.random.Generator, int], Floats], float]] = {
    "nine of ten are 1": (lambda random, n: np.where(random.random(n) < 0.9, 1, random.random(n)), 0.95),
    "thirds": (lambda random, n: random.choice([0, 1 / 3, 2 / 3, 1], n, p=[0.02, 0.03, 0.15, 0.8]), 0.91),
    "near 0": (lambda random, n: random.beta(0.3, 6, n), 0.3 / 6.3),
}


@pytest.mark.parametrize(("right", "number"), [(1, 5), (19, 20), (40, 40), (20, 40)])
def test_of_scores_that_are_0_or_1_it_is_clopper_and_pearsons(right: int, number: int) -> None:
    values = np.repeat([1.0, 0.0], [right, number - right])
    exact = scipy_stats.binomtest(right, number).proportion_ci(0.95)
    assert gaffke(values, np.ones(number), 0.95) == pytest.approx((exact.low, exact.high), abs=0.01)


@pytest.mark.parametrize("number", [10, 40])
@pytest.mark.parametrize("scores", list(SCORES))
def test_partial_credit_near_an_end_is_covered(scores: str, number: int) -> None:
    """Student's t covers 84 to 92% here; samples without any spread have no interval."""
    draw, mean = SCORES[scores]
    random, covered = np.random.default_rng(45), []
    for _ in range(200):
        interval = stats.mean_interval(draw(random, number), np.ones(number), binary=False, within=stats.SHARE)
        if interval is not None:
            covered.append(interval.low <= mean <= interval.high)
    assert np.mean(covered) >= 0.95


def test_neither_order_nor_a_split_of_the_clusters_is_of_consequence() -> None:
    random = np.random.default_rng(3)
    sizes = random.integers(1, 5, 30).astype(np.float64)
    sums, order = random.random(30) * sizes, random.permutation(30)
    assert gaffke(sums, sizes, 0.95) == gaffke(sums[order], sizes[order], 0.95)
    # Two of each item are no more of them, if they are one cluster.
    assert gaffke(2 * sums, 2 * sizes, 0.95) == pytest.approx(gaffke(sums, sizes, 0.95))
