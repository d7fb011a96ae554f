"""Simulates the coverage of intervals of partial credit from few items: `python bench/bench_intervals.py [--worlds N]`.

Each world is a sample of scores with a known true mean. The interval of the results is compared with Student's t, which
they had before, in coverage and width (points). Samples without any spread, which have no interval, are left out.
Seeded: the same flags give the same numbers. docs/statistics.md quotes those of 2,000 worlds and seed 45.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable

import numpy as np

from lyncean.arrays import Floats
from lyncean.statistics import intervals as stats
from lyncean.statistics.distributions import t_quantile

LEVEL = 0.95
Draw = Callable[[np.random.Generator, int], Floats]


def _choice(values: list[float], chances: list[float]) -> tuple[Draw, float]:
    mean = math.fsum(value * chance for value, chance in zip(values, chances, strict=True))
    return lambda random, size: random.choice(values, size, p=chances), mean


def _beta(a: float, b: float) -> tuple[Draw, float]:
    return lambda random, size: random.beta(a, b, size), a / (a + b)


def _mostly(share: float, at: float, low: float, high: float) -> tuple[Draw, float]:
    """Returns scores that are `at` in a share of the items, and uniform between `low` and `high` elsewhere."""

    def draw(random: np.random.Generator, size: int) -> Floats:
        return np.where(random.random(size) < share, at, random.uniform(low, high, size))

    return draw, share * at + (1 - share) * (low + high) / 2


SCORES: dict[str, tuple[Draw, float]] = {
    "beta around 0.89": _beta(8, 1),
    "beta around 0.95, spiked": _beta(9, 0.5),
    "beta around 0.05, spiked": _beta(0.3, 6),
    "nine of ten are 1": _mostly(0.9, 1, 0, 1),
    "nine of ten are 0": _mostly(0.9, 0, 0, 1),
    "thirds": _choice([0, 1 / 3, 2 / 3, 1], [0.02, 0.03, 0.15, 0.8]),
    "halves": _choice([0, 0.5, 1], [0.02, 0.1, 0.88]),
    "above 0.9, 3% are 0": _mostly(0.03, 0, 0.9, 1),
    "uniform over five values": _choice([0, 0.25, 0.5, 0.75, 1], [0.2] * 5),
    "narrow around 0.5": _beta(50, 50),
}


def coverage(draw: Draw, mean: float, items: int, group: int, worlds: int, seed: int) -> dict[str, float]:
    """Returns how often both intervals contain the mean, and their mean widths in points.

    Args:
        draw: Draws scores.
        mean: Their true mean.
        items: Independent items, or groups of items of one score.
        group: Most items of a group, whose sizes vary.
        worlds: Samples.
        seed: Seed of the generator.
    """
    random, totals = np.random.default_rng(seed), np.zeros((2, 2))
    counted = 0
    for _ in range(worlds):
        sizes = random.integers(1, group + 1, items).astype(np.float64)
        sums = draw(random, items) * sizes
        interval = stats.mean_interval(sums, sizes, binary=False, within=stats.SHARE)
        if interval is None:
            continue
        counted += 1
        middle = float(sums.sum() / sizes.sum())
        reach = t_quantile(LEVEL, items - 1) * stats.standard_error(sums, sizes)
        student = max(0.0, middle - reach), min(1.0, middle + reach)
        for row, (low, high) in enumerate(((interval.low, interval.high), student)):
            totals[row] += low <= mean <= high, high - low
    share, width = 100 * totals.T / counted
    return {"covers": round(share[0], 1), "t_covers": round(share[1], 1),
            "width": round(width[0], 1), "t_width": round(width[1], 1)}  # fmt: skip


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=45)
    flags, _ = parser.parse_known_args()
    results: dict[str, object] = {"worlds": flags.worlds, "seed": flags.seed}
    for items, group in ((5, 1), (10, 1), (20, 1), (40, 1), (20, 5), (40, 5)):
        name = f"{items} items" if group == 1 else f"{items} groups of 1 to {group}"
        results[name] = {
            scores: coverage(draw, mean, items, group, flags.worlds, flags.seed)
            for scores, (draw, mean) in SCORES.items()
        }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
