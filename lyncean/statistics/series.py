"""Comparisons one after another, as of the checkpoints of a training: how much error each may spend, and its interval.

A confidence sequence over checkpoints by the union bound: the intervals of comparison 1, 2, 3... miss the truth with
chances that add up to 5%, so that all of them hold together in 95% of trainings however long these are, and whatever
the comparisons share. A product of bets over the checkpoints (e-processes: Waudby-Smith and Ramdas, JRSS B 86 (2024);
Shin, Ramdas and Rinaldo, E-detectors, NEJSDS 2 (2024)) would be narrower for independent comparisons. Those of a
training share their baselines: after a lucky checkpoint the next one is expected to fall, and the product is no
martingale.

Source: alpha spending, Lan and DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70 (1983),
659-663; the intervals are those of `falls.lowest_change`.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from lyncean.arrays import Floats
from lyncean.statistics.falls import lowest_change

LEVEL = 0.95
"""Coverage of all intervals of a training together."""
HORIZON = 100
"""Comparisons that share most of the error evenly; later ones share the rest, each doubling half of what is left."""
_EVENLY = 0.9
_POWER = 0.9
"""Share of trainings in which `detectable` is found."""


def chance(number: int) -> float:
    """Returns the error that comparison `number`, from 1, may spend: the sum over all numbers is 1 - LEVEL."""
    if number <= HORIZON:
        return (1 - LEVEL) * _EVENLY / HORIZON
    doubling = math.ceil(math.log2(number / HORIZON))
    return (1 - LEVEL) * (1 - _EVENLY) / (HORIZON * math.pow(2, 2 * doubling - 1))


def ends(sums: Floats, sizes: Floats, changed: float | None, error: float) -> tuple[float, float]:
    """Returns the interval of a difference of two paired means of shares, each end of which errs with chance `error`.

    Args:
        sums: Change of each cluster.
        sizes: Items of each cluster.
        changed: Share of the items that got better or worse; None for partial credit.
        error: Chance of the truth being below the interval, and of it being above.
    """
    return lowest_change(sums, sizes, changed, error), -lowest_change(-sums, sizes, changed, error)


def detectable(reach: float, standard_error: float) -> float:
    """Returns the fall whose interval is below 0 in 90% of trainings: few items have wider ones than a normal error.

    Args:
        reach: How far intervals reach above the difference.
        standard_error: Of the difference.
    """
    return reach + NormalDist().inv_cdf(_POWER) * standard_error
