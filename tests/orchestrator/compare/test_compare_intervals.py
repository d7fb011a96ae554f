"""Intervals of shares and of paired differences: what they cover, and that shares have the scorer's."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from helpers.report_runs import Writer
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy import stats

from orchestrator.compare import intervals, result, scores, statistics, terminal
from orchestrator.run_folder.reader import open_run
from scorer.metrics.intervals import of_mean

groups = st.lists(st.lists(st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1)]), min_size=1, max_size=5), min_size=1)


def summed(found: list[list[float]]) -> tuple[intervals.Floats, intervals.Floats]:
    return np.array([sum(group) for group in found], float), np.array([len(group) for group in found], float)


def test_a_change_by_hand() -> None:
    # 20 items, 3 better and 1 worse: 4 and 2 of 22 with Bonett and Price's two more.
    sums = np.array([1.0] * 3 + [-1.0] + [0.0] * 16)
    better, worse = 4 / 22, 2 / 22
    spread = 1.959964 * ((better + worse - (better - worse) ** 2) / 22) ** 0.5
    expected = (better - worse - spread, better - worse + spread)
    assert intervals.of_change(sums, np.ones(20), 4 / 20) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("count", [10, 40, 100])
@pytest.mark.parametrize(("better", "worse"), [(0.01, 0.0), (0.02, 0.02), (0.05, 0.02), (0.1, 0.05), (0.3, 0.05)])
def test_a_change_is_covered_however_few_items_change(count: int, better: float, worse: float) -> None:
    covered = 0.0
    for gained, lost in itertools.product(range(count + 1), repeat=2):
        if gained + lost <= count:
            chance = stats.multinomial.pmf(
                [gained, lost, count - gained - lost], count, [better, worse, 1 - better - worse]
            )
            if chance > 1e-9:
                sums = np.array([1.0] * gained + [-1.0] * lost + [0.0] * (count - gained - lost))
                low, high = intervals.of_change(sums, np.ones(count), (gained + lost) / count)
                assert low is not None
                assert high is not None
                covered += chance * (low <= better - worse <= high)
    assert covered > 0.93


@given(groups)
def test_what_was_seen_is_in_the_interval_and_the_interval_is_no_point(found: list[list[tuple[int, int]]]) -> None:
    sums, sizes = summed([[float(after - before) for before, after in group] for group in found])
    changed = sum(after != before for group in found for before, after in group) / sizes.sum()
    low, high = intervals.of_change(sums, sizes, changed)
    if low is None or high is None:
        assert len(found) == 1
    else:
        assert -1 <= low <= sums.sum() / sizes.sum() <= high <= 1
        assert high - low > 1 / sizes.sum()


@given(groups)
def test_a_runs_own_interval_is_that_of_its_results(found: list[list[tuple[int, int]]]) -> None:
    sums, sizes = summed([[float(right) for right, _ in group] for group in found])
    values = np.array([float(right) for group in found for right, _ in group])
    theirs = of_mean(values, np.repeat(np.arange(len(found)), sizes.astype(int)), 0.95)
    ours = intervals.of_share(sums, sizes)
    assert ours == ((None, None) if theirs is None else pytest.approx((theirs.low, theirs.high), abs=1e-8))


def test_partial_credit_of_few_groups_has_students_t() -> None:
    values = np.array([0.1, 0.4, 0.35, 0.8, 0.2])
    expected = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
    assert intervals.of_values(values, np.ones(5), lambda: pytest.fail("no draw")) == pytest.approx(expected)


def test_a_share_of_few_groups_is_none_beyond_all() -> None:
    low, high = intervals.of_values(np.array([1.0, 1.0, 0.75]), np.ones(3), lambda: pytest.fail("no draw"), (0.0, 1.0))
    assert low is not None
    assert (low > 0, high) == (True, 1.0)


def run(path: Path, marks: list[float], *, grouped: bool = False) -> Path:
    writer = Writer(path)
    for number, score in enumerate(marks):
        writer.item(f"marvel/{number}", answer="1", score=score, group="0" if grouped else str(number))
    return writer.close()


def test_three_items_lost_are_no_certainty(tmp_path: Path) -> None:
    pair, *_ = statistics.compare(
        *(scores.read(open_run(run(tmp_path / n, [s] * 3))) for n, s in (("a", 1.0), ("b", 0.0)))
    )
    assert pair.p == pytest.approx(0.25)
    assert pair.low == -1
    assert pair.high is not None
    assert pair.high > 0


@pytest.mark.parametrize(("score", "grouped"), [(0.5, False), (1.0, True)])
def test_where_nothing_is_known_of_the_spread_none_is_shown(tmp_path: Path, score: float, grouped: bool) -> None:
    paths = [run(tmp_path / name, [score] * 40, grouped=grouped) for name in "abc"]
    found = result.compare(paths)
    assert {(pair.low, pair.high) for pairing in found.pairings for pair in pairing.pairs} == {(None, None)}
    assert {(place.low, place.high) for ranking in found.rankings for place in ranking.places} == {(None, None)}
    with (console := Console(width=120)).capture() as captured:
        terminal.show(found, console, 0)
    assert "+0.0" in captured.get()
    assert "[" not in captured.get()
