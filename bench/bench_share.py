"""Compares a share of the items chosen by information with a random one: how often a fall of a checkpoint is found.

    python bench/bench_share.py [--rounds N]

Items are stratified once by earlier checkpoints that answered all of them: those that flipped, and those that did not.
Half or three quarters of the sampled items are flipped ones. Each stratum has the interval of `falls.lowest_change`,
and the weighted sum of both that of Zou and Donner, Statistics in Medicine 27 (2008), 1693-1702 (MOVER).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from lyncean.arrays import Floats, Ints
from lyncean.statistics import falls, series

ITEMS, PILOTS, SEED = 1500, 4, 67
HALF = 0.025
"""Chance of an error at an end, large enough to count false alarms."""
KINDS = ("coins fall", "always right ones are lost")


def upper(strata: Sequence[Floats], weights: Sequence[float], error: float) -> float:
    """Returns the upper end of the interval of the change, from strata with these weights."""
    total, reach = 0.0, 0.0
    for changes, weight in zip(strata, weights, strict=True):
        if len(changes):
            mean = float(changes.mean())
            moved = float((changes != 0).mean())
            end = -falls.lowest_change(-changes, np.ones(len(changes)), moved, error)
            total += weight * mean
            reach += (weight * (end - mean)) ** 2
    return float(total + np.sqrt(reach))


def sampled_items(
    random: np.random.Generator, flipped: Ints, stable: Ints, count: int, part: float | None
) -> list[Ints]:
    """Returns the sampled items of each stratum; without a `part` of flipped ones there is a single stratum."""
    if part is None:
        return [random.choice(ITEMS, count, replace=False)]
    first = min(round(part * count), len(flipped))
    return [random.choice(flipped, first, replace=False), random.choice(stable, count - first, replace=False)]


def measure(rounds: int, share: float, fall: float, part: float | None) -> list[float]:
    """Returns the shares of false alarms at HALF, and of falls found by one comparison of a training, by kind."""
    random = np.random.default_rng(SEED)
    wrong, falls_seen = 0, np.zeros(len(KINDS))
    error = series.chance(1) / 2
    for _ in range(rounds):
        drawn = random.random(ITEMS)
        before = np.where(drawn < 0.4, 0.5, np.where(drawn < 0.7, 1.0, 0.0))
        pilots = random.random((PILOTS, ITEMS)) < before
        moved = pilots.any(axis=0) & ~pilots.all(axis=0)
        flipped, stable = np.flatnonzero(moved), np.flatnonzero(~moved)
        strata = sampled_items(random, flipped, stable, round(share * ITEMS), part)
        weights = [1.0] if part is None else [len(flipped) / ITEMS, len(stable) / ITEMS]
        lost = before.copy()
        lost[random.choice(np.flatnonzero(before == 1), round(fall * ITEMS), replace=False)] = 0.0
        base = random.random(ITEMS) < before
        for at, after in enumerate([before, np.where(before == 0.5, 0.5 - fall / 0.4, before), lost]):
            change = (random.random(ITEMS) < after).astype(float) - base
            end = upper([change[some] for some in strata], weights, error if at else HALF)
            if at:
                falls_seen[at - 1] += end < 0
            else:
                wrong += end < 0
    return [wrong / rounds, *(falls_seen / rounds).tolist()]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1000)
    rounds = parser.parse_known_args()[0].rounds
    print(f"{'share':>6} {'design':>22} {'false (2.5%)':>13}", *(f"{kind:>27}" for kind in KINDS))
    for share, fall in ((0.2, 0.1), (0.4, 0.07)):
        for part, name in ((None, "random"), (0.5, "half of it flipped"), (0.75, "three quarters flipped")):
            wrong, *seen = measure(rounds, share, fall, part)
            print(f"{share:6.0%} {name:>22} {wrong:13.1%}", *(f"{one:27.0%}" for one in seen), flush=True)
        for more in (1.2, 1.4):
            wrong, *seen = measure(rounds, share * more, fall, None)
            print(f"{share * more:6.0%} {'random':>22} {wrong:13.1%}", *(f"{one:27.0%}" for one in seen), flush=True)


if __name__ == "__main__":
    main()
