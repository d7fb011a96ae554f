"""Error that comparisons one after another may spend."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from lyncean.statistics import series


def test_all_comparisons_together_spend_five_percent() -> None:
    first = sum(map(series.chance, range(1, series.HORIZON + 1)))
    assert 0.04 < first < 0.05, "most of it is for trainings of a hundred checkpoints"
    total = sum(map(series.chance, range(1, 64 * series.HORIZON + 1)))
    assert first < total < 0.05
    assert 0.05 - total < 1e-4 * 2, "and nothing is left over"


def test_the_error_of_a_later_comparison_is_never_larger() -> None:
    spent = [series.chance(number) for number in range(1, 2000)]
    assert spent == sorted(spent, reverse=True)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.5])
def test_correlated_comparisons_spend_half_of_five_percent_at_each_end(correlation: float) -> None:
    spending = series.Correlated(0.5)
    errors = [spending.next([correlation] * number) for number in range(series.HORIZON)]
    limits = np.array([NormalDist().inv_cdf(1 - error) for error in errors])
    random, exceeded = np.random.default_rng(1), 0
    for _ in range(10):
        common = random.standard_normal((10_000, 1))
        deviates = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * random.standard_normal((10_000, 100))
        exceeded += int((deviates > limits).any(axis=1).sum())
    assert exceeded <= 2250 + 4 * 47, "four standard errors"
    assert correlation == 0.3 or exceeded >= 2250 - 4 * 47, "nothing is left over where they are as noisy as expected"


def test_the_more_comparisons_share_the_more_error_each_may_have() -> None:
    def errors(*correlations: float) -> list[float]:
        spending = series.Correlated(0.5)
        return [spending.next(correlations[:number]) for number in range(len(correlations) + 1)]

    assert errors(0.5, 0.5, 0.5)[-1] > errors(0.3, 0.3, 0.3)[-1] > errors(0.0, 0.0, 0.0)[-1]
    assert errors(0.5, 0.5)[:2] == errors(0.5, 0.1)[:2], "a limit that was used does not change"


def test_correlated_comparisons_beyond_a_hundred_spend_what_is_left() -> None:
    spending = series.Correlated(0.5, trainings=2)
    errors = [spending.next([0.5] * number) for number in range(series.HORIZON + 5)]
    assert errors[series.HORIZON :] == [series.chance(number) / 4 for number in range(101, 106)]
