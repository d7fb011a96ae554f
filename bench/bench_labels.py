"""Simulates estimates from a judge and a few labels together: `python bench/bench_labels.py [--worlds N]`.

Each world is a run with a known true accuracy, a judge that errs at a known rate, and a person who labels a uniform
sample, estimated by the code of `orchestrator report`. Seeded: the same flags give the same numbers. docs/judges.md
quotes those of 4,000 worlds and seed 29.
"""

from __future__ import annotations

import argparse
import json
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyncean.statistics import intervals as stats

Floats = NDArray[np.float64]


class World(NamedTuple):
    """A kind of run.

    Attributes:
        truth: True accuracy of the model, as judged by people.
        judge: Share of the verdicts that are right.
        lenient: True if the judge errs only on wrong answers, False if it errs on all alike.
        labels: Items that a person labels.
        items: Items of the run.
        group: Items of a group.
        alike: Chance that an item is like its group, for the person and for the judge.
    """

    truth: float
    judge: float
    lenient: bool = False
    labels: int = 100
    items: int = 2000
    group: int = 1
    alike: float = 0.0


def run(random: np.random.Generator, world: World) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Returns a person's labels, the judge's verdicts, and the groups of all items."""
    groups = np.arange(world.items) // world.group
    shared, single = random.random((2, groups[-1] + 1)), random.random((2, world.items))
    common = random.random((2, world.items)) < world.alike
    luck = np.where(common, shared[:, groups], single)
    human = luck[0] < world.truth
    errors = (1 - world.judge) / (1 - world.truth) if world.lenient else 1 - world.judge
    wrong = (luck[1] < errors) & ~(human & world.lenient)
    return human.astype(float), (human ^ wrong).astype(float), groups


def measured(random: np.random.Generator, world: World, worlds: int) -> dict[str, float]:
    """Returns coverage and width of intervals from judge and labels, from labels alone and from the judge alone."""
    covered = np.zeros((worlds, 3))
    width = np.zeros((worlds, 3))
    for number in range(worlds):
        human, judge, groups = run(random, world)
        order = random.permutation(world.items)
        mine, rest = order[: world.labels], order[world.labels :]
        powered = stats.prediction_powered(human[mine], judge[mine], judge[rest], groups[order])
        ends = [(powered.low, powered.high)]
        for values, numbers in ((human[mine], groups[mine]), (judge, groups)):
            sums, sizes = stats.clusters(values[None], np.unique(numbers, return_inverse=True)[1])
            interval = stats.mean_interval(sums[0], sizes, binary=True)
            assert interval
            ends.append((interval.low, interval.high))
        covered[number] = [low <= world.truth <= high for low, high in ends]
        width[number] = [high - low for low, high in ends]
    names = ("both", "labels alone", "judge alone")
    shares = {f"{name} covers": round(float(share), 3) for name, share in zip(names, covered.mean(axis=0), strict=True)}
    return shares | {"width to labels alone": round(float(width[:, 0].mean() / width[:, 1].mean()), 3)}


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=29)
    flags, _ = parser.parse_known_args()
    worlds = [World(truth, judge) for truth in (0.5, 0.6, 0.7, 0.9) for judge in (0.6, 0.75, 0.9, 0.95)]
    worlds += [World(0.6, judge, lenient=True) for judge in (0.75, 0.9, 0.95)]
    worlds += [World(0.6, judge, labels=50, items=500) for judge in (0.6, 0.9, 0.95)]
    worlds += [World(0.6, judge, group=5, alike=0.5) for judge in (0.6, 0.9, 0.95)]
    worlds += [World(0.6, 0.9, labels=200, items=500, group=5, alike=0.5)]
    results: dict[str, object] = {"worlds": flags.worlds, "seed": flags.seed}
    for world in worlds:
        random = np.random.default_rng([flags.seed, len(results)])
        results[" ".join(f"{name}={value}" for name, value in world._asdict().items())] = measured(
            random, world, flags.worlds
        )
    results["error_of_a_share"] = round(math.sqrt(0.05 * 0.95 / flags.worlds), 4)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
