"""Simulates confidence sequences: `python bench/bench_sequential.py [--pairs N]`.

Each world is a benchmark with a known metric over all items; its items are answered in random orders, and the
interval is checked after every one. The first world has N orders, the others a tenth. Seeded: the same flags
give the same numbers. docs/statistics.md quotes those of 2,000 orders and seed 29.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyncean.statistics.sequential import ConfidenceSequence

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_HEAD = 2


class World(NamedTuple):
    """A benchmark and the answers of a run or a pair of runs.

    Attributes:
        items: Items of the benchmark.
        share: Accuracy; of a pair, the share of the answers that differ between the runs.
        difference: Of a pair, the true difference; None for a single run.
        width: Width at which a single run stops.
        group: Most items of a group; the items of a group are right or wrong together.
        credit: True for scores with partial credit.
    """

    items: int
    share: float
    difference: float | None = None
    width: float | None = None
    group: int = 1
    credit: bool = False


def population(random: np.random.Generator, world: World) -> tuple[Floats, Ints]:
    """Returns total and size of each unit; without groups the mean over all is exactly that of the world."""
    if world.group > 1:
        sizes = random.integers(1, world.group + 1, 2 * world.items // (world.group + 1))
    else:
        sizes = np.ones(world.items, np.int64)
    count = len(sizes)
    values = np.zeros(count)
    if world.difference is not None:
        up = round(count * (world.share + world.difference) / 2)
        values[:up] = 1
        values[up : up + round(count * (world.share - world.difference) / 2)] = -1
    else:
        values[: round(count * world.share)] = 1
        if world.credit:
            values = random.beta(4 * world.share, 4 * (1 - world.share), count)
    random.shuffle(values)
    return values * sizes, sizes


def measured(random: np.random.Generator, world: World, orders: int) -> dict[str, float]:
    """Returns coverage over all looks, and the median share of the samples at which a run stops."""
    covered, stops, seconds, looks = 0, [], 0.0, 0
    pair = world.difference is not None
    for _ in range(orders):
        totals, sizes = population(random, world)
        truth = totals.sum() / sizes.sum()
        bounds = (-1.0, 1.0) if pair else (0.0, 1.0)
        sequence = ConfidenceSequence(len(sizes), int(sizes.sum()), int(sizes.max()), bounds, width=world.width)
        held, stop = True, 1.0
        began = time.process_time()
        for total, size in zip(totals.tolist(), sizes.tolist(), strict=True):
            sequence.add(total, size)
            held &= sequence.low - 1e-9 <= truth <= sequence.high + 1e-9
            decided = sequence.low > 0 or sequence.high < 0
            if stop == 1.0 and (decided if pair else world.width and sequence.width <= world.width):
                stop = sequence.count / len(sizes)
        seconds, looks = seconds + time.process_time() - began, looks + len(sizes)
        covered += held
        stops.append(stop)
    result = {"covers at every look": round(covered / orders, 4), "stops at": round(float(np.median(stops)), 3)}
    return result | {"microseconds a look": round(1e6 * seconds / looks, 1)}


def of_the_source(random: np.random.Generator, world: World, orders: int) -> float:
    """Returns the median stop of a pair with the bets of the source: predictable plug-in, equation 15 and section 5.

    These are the default bets of `confseq.betting.betting_cs_wor`.
    """
    stops = []
    for _ in range(orders):
        values, _ = population(random, world)
        total, squares, up, down, stop = 0.0, 0.25, 0.0, 0.0, 1.0
        for count, value in enumerate(values.tolist()):
            mean = -total / (len(values) - count)
            if abs(mean) >= 1:  # the remaining units cannot balance it
                stop = count / len(values)
                break
            bet = math.sqrt(2 * math.log(2 / 0.05) / (squares / (count + 1) * (count + 1) * math.log(count + 2)))
            up += math.log(1 + min(bet, 0.75 / (mean + 1)) * (value - mean))
            down += math.log(1 - min(bet, 0.75 / (1 - mean)) * (value - mean))
            squares += (value - (total / count if count else 0.0)) ** 2
            total += value
            if max(up, down) >= math.log(2 / 0.05):
                stop = (count + 1) / len(values)
                break
        stops.append(stop)
    return round(float(np.median(stops)), 3)


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--items", type=int, default=0, help="items of every world in place of its own")
    flags, _ = parser.parse_known_args()
    worlds = [World(items, 0.15, difference=0.05) for items in (1140, 2900)]
    worlds += [World(1140, 0.10, difference=0.05), World(1140, 0.2, difference=0.05), World(1140, 0.15, difference=0.0)]
    worlds += [World(1140, 0.15, difference=0.05, group=5)]
    worlds += [World(1140, share, width=0.04) for share in (0.5, 0.9, 0.97)]
    worlds += [
        World(1140, 0.6, width=0.08, group=5),
        World(400, 0.3, width=0.1, credit=True),
        World(60, 0.8, width=0.2),
    ]
    results: dict[str, object] = {"orders": flags.pairs, "seed": flags.seed}
    assert len(results) == _HEAD
    for world in worlds:
        name = " ".join(f"{field}={value}" for field, value in world._asdict().items())
        shown = world._replace(items=flags.items) if flags.items else world
        orders = flags.pairs if len(results) == _HEAD else max(1, flags.pairs // 10)
        result = measured(np.random.default_rng([flags.seed, len(results)]), shown, orders)
        if world.difference and world.group == 1:
            result["stops at, bets of the source"] = of_the_source(
                np.random.default_rng([flags.seed, len(results)]), shown, orders
            )
        results[name] = result
        print(name, result, file=sys.stderr, flush=True)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
