"""The test of many tasks' falls, and how far each may have fallen, held equal to exact calculations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import optimize, stats as scipy_stats

from lyncean.statistics.falls import Changes, lowest_change, step_down


def task(better: int, worse: int, same: int = 0, first: int = 0) -> Changes:
    sums = np.repeat([1.0, -1.0, 0.0], [better, worse, same])
    return Changes(np.arange(first, first + len(sums)), sums)


def apart(counts: Sequence[tuple[int, int]]) -> list[Changes]:
    return [task(better, worse, 5, 1000 * number) for number, (better, worse) in enumerate(counts)]


def test_one_task_is_the_one_sided_exact_test_of_mcnemar() -> None:
    (p_value,) = step_down(apart([(4, 13)]))
    assert p_value == pytest.approx(scipy_stats.binomtest(13, 17, alternative="greater").pvalue, abs=0.004)


def test_of_independent_tasks_each_is_held_against_those_that_fell_no_more() -> None:
    counts = [(2, 14), (3, 3), (8, 1), (4, 12), (0, 0), (0, 3)]
    falls = [(worse - better) / (better + worse) ** 0.5 for better, worse in counts if better + worse]
    changed = [better + worse for better, worse in counts if better + worse]
    expected = {}
    largest = 0.0
    for at in sorted(range(len(falls)), key=falls.__getitem__, reverse=True):
        below = 1.0
        for other in (o for o in range(len(falls)) if falls[o] <= falls[at]):
            signs = scipy_stats.binom(changed[other], 0.5)
            reach = (changed[other] + falls[at] * changed[other] ** 0.5) / 2
            below *= 1 - signs.sf(np.ceil(reach - 1e-9) - 1)
        largest = max(largest, 1 - below)
        expected[changed[at], falls[at]] = largest
    p_values = step_down(apart(counts))
    assert p_values.pop(4) == 1.0, "nothing changed"
    assert p_values == pytest.approx([expected[key] for key in zip(changed, falls, strict=True)], abs=0.02)


def test_tasks_of_few_changes_cost_the_others_nothing() -> None:
    """A fall of 18 in 30 changes is none that a task of ten changes could reach, though 60 tasks have them."""
    one, *others = step_down(apart([(6, 24)] + [(5, 5)] * 60))
    assert one == pytest.approx(scipy_stats.binomtest(24, 30, alternative="greater").pvalue, abs=0.001)
    assert 61 * scipy_stats.binomtest(24, 30).pvalue > 0.05, "Holm's correction misses it"
    assert min(others) > 0.5


def test_tasks_of_the_same_rows_are_one_piece_of_evidence() -> None:
    alone = step_down([task(4, 13)])
    together = step_down([task(4, 13)] * 30)
    assert together == pytest.approx(alone * 30, abs=0.006)
    assert step_down(apart([(4, 13)] * 30))[0] > 0.2, "of other rows they are thirty chances"


def test_neither_the_order_of_clusters_nor_their_numbers_are_of_consequence() -> None:
    random = np.random.default_rng(4)
    sums = [random.normal(-0.2, 1, 200) for _ in range(3)]
    clusters = [np.arange(200), np.arange(100, 300), np.arange(1000, 1200)]
    orders, numbers = [random.permutation(200) for _ in sums], random.permutation(2000)
    plain = step_down([Changes(*cluster) for cluster in zip(clusters, sums, strict=True)])
    mixed = [
        Changes(numbers[cluster[order]], change[order])
        for cluster, change, order in zip(clusters, sums, orders, strict=True)
    ]
    assert step_down(mixed) == plain
    assert max(plain) < 1


def score(gained: int, lost: int, number: int, difference: float) -> float:
    """Tango's statistic by a search for the most likely shares of that difference."""

    def unlikely(better: float) -> float:
        shares = np.array([better, better - difference, 1 - 2 * better + difference])
        return float(-(np.array([gained, lost, number - gained - lost]) * np.log(np.maximum(shares, 1e-300))).sum())

    ends = max(0.0, difference), (1 + difference) / 2
    better = optimize.minimize_scalar(unlikely, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
    variance = 2 * better - difference - difference**2
    return float(((gained - lost) / number - difference) / (variance / number) ** 0.5)


@pytest.mark.parametrize("chance", [0.05, 0.001])
@pytest.mark.parametrize(("gained", "lost", "same"), [(5, 9, 30), (1, 0, 40), (12, 80, 300), (0, 3, 2)])
def test_the_bound_of_a_share_is_that_of_a_score_test(gained: int, lost: int, same: int, chance: float) -> None:
    number = gained + lost + same
    low = lowest_change(task(gained, lost, same).sums, np.ones(number), (gained + lost) / number, chance)
    assert score(gained, lost, number, low) == pytest.approx(scipy_stats.norm.isf(chance), abs=1e-3)


def test_where_nothing_changed_a_fall_may_hide() -> None:
    squared = scipy_stats.norm.isf(0.05) ** 2
    assert lowest_change(np.zeros(100), np.ones(100), 0.0, 0.05) == pytest.approx(-squared / (100 + squared))
    assert -0.04 < lowest_change(np.zeros(100), np.ones(100), None, 0.05) < -0.02, "partial credit: 0.05 ** (1 / 101)"
    rare = lowest_change(np.zeros(100), np.ones(100), None, 1e-6)
    assert rare == pytest.approx(1e-6 ** (1 / 101) - 1, abs=0.01)
    assert lowest_change(np.full(100, -1.0), np.ones(100), None, 1e-6) == -1
    assert lowest_change(np.zeros(1), np.full(1, 9.0), 0.0, 0.05) == -1, "one group of items says nothing"


def test_groups_that_change_alike_may_hide_more() -> None:
    groups = np.repeat([-5.0, 5.0, 0.0], [3, 2, 35])
    items = np.repeat(groups / 5, 5)
    bound = lowest_change(groups, np.full(40, 5.0), 25 / 200, 0.01)
    assert -1 < bound < lowest_change(items, np.ones(200), 25 / 200, 0.01) - 0.03


@pytest.mark.parametrize("number", [12, 60])
def test_bounds_of_partial_credit_hold(number: int) -> None:
    random, held = np.random.default_rng(6), []
    for _ in range(150):
        changes = random.choice([-0.5, 0.0, 0.25, -1.0], number, p=[0.1, 0.7, 0.15, 0.05])
        held.append(lowest_change(changes, np.ones(number), None, 0.05) <= -0.0625)
    assert np.mean(held) >= 0.93


@pytest.mark.parametrize("chance", [9e-4, 2e-4, 2e-6])
@pytest.mark.parametrize(("gained", "number"), [(3, 10), (10, 60), (50, 60), (60, 60), (99, 100)])
def test_bounds_of_partial_credit_hold_for_rare_errors(gained: int, number: int, chance: float) -> None:
    """Of values at both ends the bound is Clopper and Pearson's; 10,000 draws do not see 2 in a million."""
    low = lowest_change(np.repeat([1.0, -1.0], [gained, number - gained]), np.ones(number), None, chance)
    missed = scipy_stats.beta.cdf((low + 1) / 2, gained, number - gained + 1)
    assert 0.93 * chance < missed <= chance


def test_false_alarms_are_rare_where_changes_depend_on_each_other() -> None:
    """Ten tasks about the same 30 rows, whose answers change together: any is named in 5% of the worlds or fewer."""
    random, named = np.random.default_rng(2), 0
    for _ in range(100):
        shared = random.choice([-1.0, 0.0, 1.0], 30, p=[0.1, 0.8, 0.1])
        tasks = [Changes(np.arange(30), np.where(random.random(30) < 0.5, shared, 0.0)) for _ in range(10)]
        named += min(step_down(tasks)) < 0.05
    assert named <= 9, "the chance of ten or more is 3%"


def test_all_orders_of_tasks_find_the_same_falls() -> None:
    tasks = apart([(1, 12), (5, 5), (6, 6)])
    falls = [[tasks.index(order[at]) for at, p in enumerate(step_down(order)) if p < 0.05]
             for order in itertools.permutations(tasks)]  # fmt: skip
    assert falls == [[0]] * 6
