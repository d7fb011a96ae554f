"""Tests many tasks at once: which fell beyond chance, and how far each may have fallen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from numpy.typing import NDArray

from lyncean.arrays import Floats, Ints, np
from lyncean.statistics.bounded import DRAWS as RESAMPLES, gaffke, gaffke_low
from lyncean.statistics.distributions import t_quantile
from lyncean.statistics.intervals import NO_SPREAD, interval_size, standard_error

DRAWS = 9_999
"""Draws of signs: a p-value near 5% is exact within 0.4 points."""

_AT_ONCE = 1 << 16
"""Clusters of several tasks whose changes are in memory at once."""
_BITS = 2.0 * ((np.arange(256)[None] >> np.arange(8)[:, None]) & 1) - 1
"""The signs of eight clusters for each byte."""
_TIE = 1e-9
_RARE = 10 / RESAMPLES
"""Chance below which draws are too coarse, as for one comparison of a whole training."""
_SKEWED = 100
"""Clusters up to which one-sided Student's t covers partial credit too rarely: 91% instead of 95% for 60 clusters."""


class Changes(NamedTuple):
    """A task's distinct clusters, and the change of each from the first run to the second."""

    clusters: Ints | NDArray[np.uint64]
    sums: Floats


def step_down(tasks: Sequence[Changes], seed: int = 0) -> list[float]:
    """Returns for each task the one-sided p-value that it did not fall, adjusted for the number of tasks.

    The chance that any task below 5% did not fall is 5% or less. If a run is neither better nor worse, each cluster's
    change could equally have the other sign. The signs are drawn for all tasks together, so a cluster of several tasks
    has one sign in all of them. Each task's fall, in units of its standard error without a fall, is compared with the
    largest fall of all tasks whose fall is not larger. Tasks in which few answers change can hardly reach such a fall,
    so they do not weaken the test of the others, as they would in Holm's correction. The p-values depend on the changes
    and the order of the tasks, not on the clusters' order or numbers.

    Source: Westfall and Young, Resampling-Based Multiple Testing (1993), algorithm 4.1 (step-down max-T).
    """
    scales = [float(np.sqrt((task.sums**2).sum())) for task in tasks]
    able = [at for at, scale in enumerate(scales) if scale > 0]
    adjusted = [1.0] * len(tasks)
    if not able:
        return adjusted
    scale = np.array([scales[at] for at in able])
    falls = -np.array([np.sort(tasks[at].sums).sum() for at in able]) / scale
    drawn = _drawn([tasks[at] for at in able], seed) / scale[:, None]
    order = np.argsort(-falls, kind="stable")
    # A task competes with the tasks whose fall is not larger than its own.
    largest = np.maximum.accumulate(drawn[order][::-1], axis=0)[::-1]
    reached = (largest >= falls[order, None] - _TIE).sum(axis=1)
    p_values = np.maximum.accumulate((1 + reached) / (1 + DRAWS))
    for at, p_value in zip(order.tolist(), p_values.tolist(), strict=True):
        adjusted[able[at]] = p_value
    return adjusted


def _drawn(tasks: Sequence[Changes], seed: int) -> Floats:
    """Returns the sums of each task's changes, shape [tasks, DRAWS], with one random sign per cluster."""
    random = np.random.default_rng(seed)
    clusters, counts = np.unique(np.concatenate([task.clusters for task in tasks]), return_counts=True)
    shared = clusters[counts > 1]
    sums = np.zeros((len(tasks), DRAWS))
    for row, task in enumerate(tasks):
        alone = task.sums[(task.sums != 0) & ~np.isin(task.clusters, shared)]
        sums[row] = _flipped(random, np.sort(alone)[None])[0]
    for start in range(0, len(shared), _AT_ONCE):
        part = shared[start : start + _AT_ONCE]
        changes = np.zeros((len(tasks), len(part)))
        for row, task in enumerate(tasks):
            here = np.isin(task.clusters, part)
            changes[row, np.searchsorted(part, task.clusters[here])] = task.sums[here]
        changes = changes[:, changes.any(axis=0)]
        sums += _flipped(random, changes[:, np.lexsort(changes)])
    return sums


def _flipped(random: np.random.Generator, changes: Floats) -> Floats:
    """Returns the sums of each row, shape [rows, DRAWS], under random signs of the columns, eight columns at a time."""
    sums = np.zeros((len(changes), DRAWS))
    for start in range(0, changes.shape[1], 8):
        some = changes[:, start : start + 8]
        table = some @ _BITS[: some.shape[1]]
        sums += np.take(table, random.integers(0, 256, DRAWS, dtype=np.uint8), axis=1)
    return sums


def lowest_change(sums: Floats, sizes: Floats, changed: float | None, chance: float) -> float:
    """Returns the lower end of a one-sided interval of the difference of two paired means of shares.

    Items that are right or wrong get Tango's score interval, at the effective sample size over clusters. Partial credit
    gets Gaffke's interval for few clusters, else Student's t. In simulations of 3 to 61 tasks of 20 to 400 items, of
    which 2 to 20% change by chance and none or all fell by 10 or 30 points, Tango's intervals of all tasks held
    together in 94% or more; Bonett and Price's, which holds in 95% for one task, in 80% or more.

    Source: Tango, Statistics in Medicine 17 (1998), 891-908.

    Args:
        sums: Change of each cluster.
        sizes: Items of each cluster.
        changed: Share of the items that got better or worse; None for partial credit.
        chance: Chance that the true difference is lower.
    """
    if len(sums) < 2 and sizes.sum() > 1:
        return -1.0
    difference, level = float(sums.sum() / sizes.sum()), 1 - 2 * chance
    if changed is not None:
        size = interval_size(sums, sizes, changed - difference**2, level)
        return _tango(difference, (changed + difference) / 2, size, NormalDist().inv_cdf(1 - chance))
    if len(sums) <= _SKEWED or (error := standard_error(sums, sizes)) < NO_SPREAD:
        shares = (sums + sizes) / 2
        low = gaffke_low(shares, sizes, chance) if chance < _RARE else gaffke(shares, sizes, level)[0]
        return 2 * low - 1
    return max(-1.0, difference - t_quantile(level, len(sums) - 1) * error)


def _tango(difference: float, gained: float, size: float, z: float) -> float:
    """Returns the lowest difference that a score test with the quantile `z` does not reject, by bisection."""
    lost = gained - difference
    low, high = -1.0, difference
    for _ in range(60):
        middle = (low + high) / 2
        # The maximum likelihood estimate of the share that got better, given this difference.
        linear = -lost - gained - (2 - lost + gained) * middle
        constant = gained * middle * (1 + middle)
        share = (math.sqrt(max(linear**2 - 8 * constant, 0.0)) - linear) / 4
        variance = max(2 * share - middle * (1 + middle), 0.0)
        if difference - middle <= z * math.sqrt(variance / size):
            high = middle
        else:
            low = middle
    return high
