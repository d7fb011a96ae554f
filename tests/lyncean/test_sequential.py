"""Confidence sequences: at every look they hold the figure of the whole population."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lyncean.statistics.sequential import ConfidenceSequence

UNITS = st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1)), min_size=1, max_size=40).filter(
    lambda units: any(size for size, _ in units)
)


@settings(max_examples=60, deadline=None)
@given(UNITS)
def test_the_ends_only_close_in_hold_what_is_certain_and_meet_at_the_end(units: list[tuple[int, float]]) -> None:
    sizes = [size for size, _ in units]
    totals = [size * share for size, share in units]
    truth = sum(totals) / sum(sizes)
    sequence = ConfidenceSequence(len(units), sum(sizes), max(sizes))
    low, high, seen, total = 0.0, 1.0, 0, 0.0
    for size, subtotal in zip(sizes, totals, strict=True):
        sequence.add(subtotal, size)
        assert low <= sequence.low <= sequence.high <= high or sequence.complete
        low, high, seen, total = sequence.low, sequence.high, seen + size, total + subtotal
        # What all later units could still make of it is a bound without any chance.
        assert sequence.low >= total / sum(sizes) - 1e-9
    assert sequence.complete
    assert sequence.low == sequence.high == pytest.approx(truth)


@pytest.mark.parametrize(("total", "size"), [(1.5, 1), (-0.1, 1), (1.0, 3)])
def test_what_is_no_unit_of_the_population_is_refused(total: float, size: int) -> None:
    sequence = ConfidenceSequence(10, 20, 2)
    with pytest.raises(ValueError, match="none of the population"):
        sequence.add(total, size)


def test_no_more_units_than_there_are() -> None:
    sequence = ConfidenceSequence(1, 1, 1)
    sequence.add(1.0, 1)
    with pytest.raises(ValueError, match="none of the population"):
        sequence.add(1.0, 1)


def test_it_bets_as_the_source_does() -> None:
    """Against the definition: the product of 1 + bet * (z - conditional mean), candidate by candidate."""
    random = np.random.default_rng(5)
    values = (random.random(200) < 0.8).astype(float)
    sequence = ConfidenceSequence(200, 200, 1, width=0.1)
    bets = []
    for value in values:
        bets.append(sequence._bet(200 - sequence.count))
        sequence.add(float(value), 1)
        if sequence.count == 120:
            break
    for end, sign in ((sequence.low - 0.0005, 1), (sequence.high + 0.0005, -1)):
        most, capital, total = -math.inf, 0.0, 0.0
        for count, (bet, value) in enumerate(zip(bets, values[:120], strict=True)):
            mean = (200 * end - total) / (200 - count)
            room = mean if sign > 0 else 1 - mean
            capital += math.log(1 + sign * min(bet, 0.75 / room) * (value - mean))
            most, total = max(most, capital), total + value
        assert most >= math.log(2 / 0.05)  # what lies beyond an end was refuted
