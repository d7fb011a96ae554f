"""Simulates estimates of the metrics of all items from a random tenth: `python bench/bench_survey.py [--models N]`.

A world is a benchmark, some known runs with all their items, and models that answer a random tenth. Answers
follow a logistic model with one or four abilities. In `guessing` a quarter of the wrong answers is right by chance. In
`foreign` the new models have seen a quarter of the items before, and for half of them other items are hard than for the
known runs. In `related` each new model has a close relative among the known runs, an earlier checkpoint for
example, which answers nine of ten items alike. Our estimate is compared with the plain one and with item response
theory: the posterior mean of a two-parameter model over all items, which knows the true item parameters and so is
better than any fit. Seeded: the same flags give the same numbers. docs/statistics.md quotes those of 1,000 models
and seed 61.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyncean.statistics.survey import Estimate, estimate

Floats = NDArray[np.float64]
_MODELS = 50
"""New models of one benchmark."""
_WITHIN = 0.02


class World(NamedTuple):
    """A benchmark, its known runs, and the new models.

    Attributes:
        items: Items of the benchmark.
        runs: Known runs.
        kind: "one ability", "guessing", "foreign" or "related".
        ability: Mean ability of the models; about 55% right at 0 and 90% at 3.
    """

    items: int
    runs: int
    kind: str = "guessing"
    ability: float = 0.4


class Answers(NamedTuple):
    """Right and wrong answers.

    Attributes:
        known: Answers of the known runs, (runs, items).
        responses: Answers of the new models, (models, items).
        slopes: True slopes of the items on the first ability.
        levels: True levels of the items.
    """

    known: Floats
    responses: Floats
    slopes: Floats
    levels: Floats


def answers(random: np.random.Generator, world: World) -> Answers:
    """Draws the answers of a world."""
    several = world.kind != "one ability"
    abilities = random.normal(0, 1, (world.runs + _MODELS, 4))
    abilities[:, 0] = random.normal(world.ability, 0.9, len(abilities))
    size = np.exp(random.normal(0, 0.35, world.items))
    slopes = np.zeros((world.items, 4))
    slopes[:, 0] = size * (0.8 if several else 1.0)
    if several:
        slopes[:, 1:] = 0.8 * size[:, None] * random.dirichlet([0.6] * 3, world.items)
    levels = random.normal(0, 1.3, world.items)
    logits = abilities @ slopes.T - levels
    if world.kind == "foreign":
        half = world.runs + _MODELS // 2
        logits[half:] += levels - 0.5 * levels - 0.87 * random.normal(0, 1.3, world.items)
        logits[world.runs :, random.random(world.items) < 0.25] += 4
    chance = 0.25 if several else 0.0
    right = (random.random(logits.shape) < chance + (1 - chance) / (1 + np.exp(-logits))).astype(np.float64)
    known, new = right[: world.runs], right[world.runs :]
    if world.kind == "related":
        known = np.vstack([known, np.where(random.random(new.shape) < 0.8, new, right[: len(new)][::-1])])
    return Answers(known, new, slopes[:, 0], levels)


_GRID = np.linspace(-5, 5, 101)


def of_item_response_theory(right: Floats, indices: NDArray[np.int64], of: Answers) -> float:
    """Returns the mean of the observed answers and of the others' posterior means under a two-parameter model."""
    shares = np.clip(1 / (1 + np.exp(of.levels[:, None] - of.slopes[:, None] * _GRID)), 1e-6, 1 - 1e-6)
    logs = right @ np.log(shares[indices]) + (1 - right) @ np.log(1 - shares[indices]) - _GRID**2 / 2 / 1.7
    weights = np.exp(logs - logs.max())
    predicted = shares @ (weights / weights.sum())
    predicted[indices] = right
    return float(predicted.mean())


def measured(random: np.random.Generator, world: World, models: int, share: float) -> dict[str, float]:
    """Returns errors and coverage over a number of models."""
    count = round(share * world.items)
    results: dict[str, list[tuple[float, bool, float]]] = {"plain": [], "with runs": []}
    theory, explained = [], []
    for _ in range(max(1, models // _MODELS)):
        drawn = answers(random, world)
        for right in drawn.responses:
            truth, indices = float(right.mean()), random.permutation(world.items)[:count]
            sizes, nothing = np.ones(world.items), np.zeros((world.items, 0))
            for name, others in (("plain", nothing), ("with runs", drawn.known.T)):
                one: Estimate = estimate(right[indices], indices, sizes, others)
                results[name].append((abs(one.value - truth), one.low <= truth <= one.high, one.high - one.low))
            explained.append(one.explained)
            theory.append(abs(of_item_response_theory(right[indices], indices, drawn) - truth))
    line = {"asked": count, "accuracy": round(float(drawn.responses.mean()), 3)}
    for name, estimates in results.items():
        errors, covers, widths = map(np.array, zip(*estimates, strict=True))
        line[f"{name}: within 2 points"] = round(float((errors <= _WITHIN).mean()), 3)
        line[f"{name}: covers"] = round(float(covers.mean()), 3)
        line[f"{name}: width"] = round(100 * float(widths.mean()), 2)
    line["with runs: variance explained"] = round(float(np.mean(explained)), 3)
    line["item response theory: within 2 points"] = round(float((np.array(theory) <= _WITHIN).mean()), 3)
    return line


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=1000, help="models of each world")
    parser.add_argument("--seed", type=int, default=61)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--most", type=int, default=10**9, help="leave out worlds with more items")
    flags, _ = parser.parse_known_args()
    worlds = [
        World(items, 40, kind)
        for items in (500, 1000, 3000, 10000)
        for kind in ("one ability", "guessing", "foreign", "related")
    ]
    worlds += [World(items, 40, ability=3) for items in (500, 3000)] + [World(3000, 5), World(20000, 40)]
    results: dict[str, object] = {"models": flags.models, "seed": flags.seed}
    for number, world in enumerate(worlds):
        if world.items > flags.most:
            continue
        name = " ".join(f"{field}={value}" for field, value in world._asdict().items())
        results[name] = measured(np.random.default_rng([flags.seed, number]), world, flags.models, flags.share)
        print(name, results[name], file=sys.stderr, flush=True)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
