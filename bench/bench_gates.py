"""Simulates pairs of runs to measure gates and detectable differences: `python bench/bench_gates.py [--worlds N]`.

Each world is a pair of runs with a known true change, judged by the code of `orchestrator compare`. Seeded: the same
flags give the same numbers. docs/statistics.md quotes those of 4,000 worlds and seed 29.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lyncean.arrays import Ints
from lyncean.statistics import distributions, intervals as stats
from orchestrator.compare import gate, statistics
from orchestrator.compare.items import Units
from orchestrator.compare.scores import Step
from orchestrator.run_folder.reader import Run

FLIPPED = 0.15
"""Share of the answers that turn from right to wrong or the reverse without a change on average."""
ACCURACY = 0.6
TASKS, ITEMS = 61, 100
"""Number of tasks, and items of each, in runs in which one task falls."""
Pairs = dict[Step, tuple[Units, Units]]


def world(random: np.random.Generator, sizes: tuple[int, ...], change: float, group: int, alike: float) -> Pairs:
    """Returns the tasks of two runs.

    Args:
        random: The world's random generator.
        sizes: Items of each task.
        change: True change of the accuracy.
        group: Items of a group.
        alike: Chance that an item changes like its group.
    """
    flips = max(FLIPPED, 2 * abs(change))
    chances = np.array([(flips - change) / 2, 1 - flips, (flips + change) / 2])
    pairs: Pairs = {}
    for task, size in enumerate(sizes):
        clusters = np.arange(size) // group
        single, shared = random.choice(3, size, p=chances), random.choice(3, size // group + 1, p=chances)[clusters]
        turn = np.where(random.random(size) < alike, shared, single) - 1
        pairs[Step(f"task{task}", "")] = pair(random, turn, clusters.astype(np.uint64) + task * 10**6)
    return pairs


def pair(random: np.random.Generator, turn: Ints, clusters: NDArray[np.uint64]) -> tuple[Units, Units]:
    """Returns a task in two runs; `turn` is -1 for an item that got worse, 0 for the same, 1 for better."""
    first = np.where(turn == 0, random.random(len(turn)) < ACCURACY, turn < 0).astype(float)
    names = np.arange(len(turn)).astype("S16")
    return Units(names, first, clusters), Units(names, first + turn, clusters)


def collapse(random: np.random.Generator, flips: float, fall: float, worlds: int) -> dict[str, float]:
    """Returns how often the tests of single tasks find a fall of the first of TASKS tasks.

    Args:
        random: The random generator.
        flips: Share of the answers that change by chance, half of them for the better.
        fall: Further share of the first task's answers that are lost.
        worlds: Pairs of runs.
    """
    run, conditions, counts = Run("", {}, {}, "run"), gate.parse("no_regression"), Counter[str]()
    for _ in range(worlds):
        units: Pairs = {}
        for task in range(TASKS):
            lost = flips / 2 + (0.0 if task else fall)
            turn = random.choice(3, ITEMS, p=[lost, 1 - lost - flips / 2, flips / 2]) - 1
            clusters = np.arange(ITEMS, dtype=np.uint64) + np.uint64(task * 10**6)
            units[Step(f"task{task:02}", "")] = pair(random, turn, clusters)
        pairs, pooled = statistics.compare_units(units), statistics.pool(units)
        fell, holm = [one.regression for one in pairs], [one.significant and one.difference < 0 for one in pairs]
        findings = gate.judge(conditions, run, pairs, list(units), pooled)
        lows = [one.fall.low for one in pairs if one.fall and one.fall.low is not None]
        counts["found"] += fell[0]
        counts["found_by_holm"] += holm[0]
        counts["another_task_named"] += any(fell[1:])
        counts["any_task_named"] += any(fell)
        counts["gate_FAIL"] += gate.worst(findings) == gate.FAIL
        counts["bounds_hold_for_all_tasks"] += lows[0] <= -fall and max(lows[1:]) <= 0
    return {name: round(count / worlds, 3) for name, count in counts.items()}


def compared(worlds: Iterator[Pairs], change: float) -> dict[str, float]:
    """Returns the shares of worlds in which each test finds a fall, and of each verdict of the gate."""
    run, conditions, counts, number = Run("", {}, {}, "run"), gate.parse("no_regression"), Counter[str](), 0
    for units in worlds:
        number += 1
        pairs, pooled = statistics.compare_units(units), statistics.pool(units)
        assert pooled
        assert pooled.low is not None
        assert pooled.high is not None
        counts["single_task_tests_see_a_fall"] += any(pair.regression for pair in pairs)
        counts["pooled_test_sees_a_fall"] += pooled.regression
        counts["interval_covers"] += pooled.low <= change <= pooled.high
        answers = {finding.verdict for finding in gate.judge(conditions, run, pairs, list(units), pooled)}
        counts[f"gate_{next(name for name in (gate.FAIL, gate.NOT_SHOWN, gate.PASS) if name in answers)}"] += 1
    names = ("single_task_tests_see_a_fall", "pooled_test_sees_a_fall", "interval_covers")
    answers = tuple(f"gate_{name}" for name in (gate.PASS, gate.NOT_SHOWN, gate.FAIL))
    return {name: round(counts[name] / number, 3) for name in names + answers}


def independent(random: np.random.Generator, share: float, items: int, worlds: int) -> dict[str, float | None]:
    """Returns how often two runs over other items differ significantly at the reported detectable difference."""
    detectable = stats.detectable_shares(share, items)
    result: dict[str, float | None] = {}
    for direction, difference in (("fall", detectable.fall and -detectable.fall), ("rise", detectable.rise)):
        result[direction] = None if difference is None else round(100 * difference, 1)
        if difference is not None:
            result[f"{direction}_seen"] = round(seen(random, share, share + difference, items, worlds), 3)
    if detectable.fall and detectable.rise:
        # The power if the smaller of the two stood for both directions.
        smaller = min(detectable.fall, detectable.rise)
        result["fall_of_the_rise_seen"] = round(seen(random, share, share - smaller, items, worlds), 3)
    return result


def seen(random: np.random.Generator, one: float, other: float, items: int, worlds: int) -> float:
    """Returns how often a two-sided z-test at 5% finds a difference between shares of two independent runs."""
    shares = random.binomial(items, [one, other], size=(worlds, 2)) / items
    both = shares.mean(axis=1)
    error = np.sqrt(2 * both * (1 - both) / items)
    return float((np.abs(shares[:, 1] - shares[:, 0]) > distributions.normal_quantile(0.95) * error).mean())


def paired_power(random: np.random.Generator, items: int, worlds: int) -> dict[str, float]:
    """Returns how often McNemar's test finds the paired change that `compare` reports as detectable."""
    change = stats.detectable_change(np.zeros(items), np.ones(items), FLIPPED)
    assert change is not None
    falls = sum(statistics.compare_units(world(random, (items,), -change, 1, 0.0))[0].regression for _ in range(worlds))
    return {"items": items, "change": round(100 * change, 1), "seen": round(falls / worlds, 3)}


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=29)
    flags, _ = parser.parse_known_args()
    results: dict[str, object] = {"worlds": flags.worlds, "seed": flags.seed}
    settings = {"191 items": ((191,), 1, 0.0), "7 tasks of 191": ((191,) * 7, 1, 0.0),
                "7 tasks of 191, groups of 5": ((191,) * 7, 5, 0.3), "2,900 items": ((2900,), 1, 0.0)}  # fmt: skip
    for name, (sizes, group, alike) in settings.items():
        for change in (0.0, -0.05):
            random = np.random.default_rng([flags.seed, len(results)])
            worlds = (world(random, sizes, change, group, alike) for _ in range(flags.worlds))
            results[f"{name}, change {100 * change:+.0f}"] = compared(worlds, change)
    random = np.random.default_rng([flags.seed, len(results)])
    results["independent runs of 100 items at 95%"] = independent(random, 0.95, 100, flags.worlds)
    results["independent runs of 500 items at 60%"] = independent(random, 0.6, 500, flags.worlds)
    results["paired"] = [paired_power(random, items, flags.worlds) for items in (191, 1337)]
    for flips in (0.1, 0.2):
        for fall in (0.0, 0.2):
            name = f"{TASKS} tasks of {ITEMS}, {flips:.0%} change, one falls by {100 * fall:.0f} points"
            results[name] = collapse(np.random.default_rng([flags.seed, len(results)]), flips, fall, flags.worlds)
    results["error_of_a_share"] = round(math.sqrt(0.25 / flags.worlds), 3)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
