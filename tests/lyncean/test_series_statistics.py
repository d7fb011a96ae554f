"""Error that comparisons one after another may spend."""

from __future__ import annotations

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
