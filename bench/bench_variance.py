"""Compares parts of a standard error with known ones in simulated runs: `python bench/bench_variance.py [--worlds N]`.

Each world draws items (in groups, in some settings), prompts, orders of options and repeats anew, of known variance,
and lets `lyncean.statistics.variance` separate them. Seeded: the same flags give the same numbers.
docs/statistics.md quotes those of 2,000 worlds and seed 6.
"""

from __future__ import annotations

import argparse
import json
import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from lyncean.arrays import Floats, Ints
from lyncean.statistics import intervals as stats
from lyncean.statistics.distributions import t_quantile
from lyncean.statistics.variance import variance_parts


class Setting(NamedTuple):
    """A run's size, and the standard deviations of the parts of an answer's score.

    Attributes:
        binary: True if an answer is right or wrong, by the sign of its score.
    """

    items: int
    prompts: int
    repeats: int
    item: float
    prompt: float
    prompt_item: float
    order: float
    answer: float
    group: int = 1
    binary: bool = False


SETTINGS = {
    "200 items, 5 prompts, 8 repeats each": Setting(200, 5, 8, 0.30, 0.04, 0.15, 0.20, 0.30),
    "the same, prompts all alike": Setting(200, 5, 8, 0.30, 0.0, 0.15, 0.20, 0.30),
    "the same in groups of 5": Setting(200, 5, 8, 0.30, 0.04, 0.15, 0.20, 0.30, group=5),
    "200 items, 20 prompts": Setting(200, 20, 2, 0.30, 0.04, 0.15, 0.20, 0.30),
    "200 items right or wrong, 5 prompts, 8 repeats each": Setting(200, 5, 8, 1.0, 0.1, 0.5, 0.6, 0.8, binary=True),
}
MEAN = 0.3
ORDERS = 2
"""Orders of an item's options, each of which is drawn several times."""


def world(random: np.random.Generator, size: Setting) -> tuple[Floats, Ints, Ints, Ints, Ints]:
    """Returns the scores of a run's answers, and their groups, items, prompts and orders."""
    shape = (size.items, size.prompts, size.repeats)
    item, prompt, _ = (codes.ravel() for codes in np.indices(shape))
    order = random.integers(0, ORDERS, shape).ravel()
    # With groups, half of an item's variance is its group's.
    share = math.sqrt(0.5) if size.group > 1 else 1.0
    shared = np.repeat(random.normal(0, size.item, size.items // size.group), size.group)
    single = random.normal(0, size.item, size.items)
    items = share * single + math.sqrt(1 - share**2) * shared
    prompts, both = random.normal(0, size.prompt, size.prompts), random.normal(0, size.prompt_item, shape[:2])
    orders = random.normal(0, size.order, (*shape[:2], ORDERS))
    scores = MEAN + items[item] + prompts[prompt] + both[item, prompt] + orders[item, prompt, order]
    scores += random.normal(0, size.answer, len(item))
    return (scores > 0).astype(float) if size.binary else scores, item // size.group, item, prompt, order


def truth(size: Setting) -> float:
    """Returns the mean over all possible items, prompts, orders and answers."""
    spread = math.hypot(size.item, size.prompt, size.prompt_item, size.order, size.answer)
    return NormalDist().cdf(MEAN / spread) if size.binary else MEAN


def true_errors(size: Setting) -> dict[str, float]:
    """Returns the standard error of each part; orders recur, so an answer counts more than once in its order."""
    cells = size.items * size.prompts
    answers = cells * size.repeats
    alone = 1 if size.group == 1 else 0.5 + 0.5 * size.group
    return {
        "groups" if size.group > 1 else "items": size.item * math.sqrt(alone / size.items),
        "prompt": size.prompt / math.sqrt(size.prompts),
        "prompt × items": size.prompt_item / math.sqrt(cells),
        "order": size.order * math.sqrt((1 + (size.repeats - 1) / ORDERS) / answers),
        "repeats": size.answer / math.sqrt(answers),
    }


def measured(size: Setting, seed: list[int], worlds: int) -> dict[str, object]:
    """Returns the mean parts with the true ones, and how often the two intervals cover the truth."""
    random, variances, covered = np.random.default_rng(seed), dict[str, float](), np.zeros(2)
    for _ in range(worlds):
        values, group, item, prompt, order = world(random, size)
        parts = variance_parts(values, group, item, {"prompt": prompt}, order)
        assert parts
        for part in parts.parts:
            variances[part.name] = variances.get(part.name, 0.0) + part.variance / worlds
        sums, sizes = stats.clusters(values[None], group)
        plain = stats.mean_interval(sums[0], sizes, binary=size.binary)
        assert plain
        mean, reach = values.mean(), t_quantile(0.95, parts.df) * math.sqrt(parts.total)
        covered += [plain.low <= truth(size) <= plain.high, abs(mean - truth(size)) <= reach]
    known = {} if size.binary else {name: round(100 * error, 2) for name, error in true_errors(size).items()}
    return {
        "parts": {name: round(100 * math.sqrt(variance), 2) for name, variance in variances.items()},
        **({"true": known} if known else {}),
        "interval_covers": round(covered[0] / worlds, 3),
        "interval_over_prompts_covers": round(covered[1] / worlds, 3),
    }


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=6)
    flags, _ = parser.parse_known_args()
    results: dict[str, object] = {"worlds": flags.worlds, "seed": flags.seed}
    for number, (name, size) in enumerate(SETTINGS.items()):
        results[name] = measured(size, [flags.seed, number], flags.worlds)
    print(json.dumps(results, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
