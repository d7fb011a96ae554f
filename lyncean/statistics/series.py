"""Sequential comparisons, as of the checkpoints of a training: the error that each may spend, and its interval.

A confidence sequence over checkpoints by the union bound: the intervals of comparison 1, 2, 3... miss the truth with
chances that add up to 5%, so all of them hold together in 95% of trainings of any length, with any dependence between
the comparisons. A product of bets over the checkpoints (e-processes: Waudby-Smith and Ramdas, JRSS B 86 (2024); Shin,
Ramdas and Rinaldo, E-detectors, NEJSDS 2 (2024)) would be narrower for independent comparisons. The comparisons of a
training share their baselines: after a lucky checkpoint the next one is expected to fall, so the product is not a
martingale.

Source: alpha spending, Lan and DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70 (1983),
659-663; the intervals are those of `falls.lowest_change`.

If all comparisons have the same baseline, its noise is in each of them, and the union bound spends too little. They
then spend the error of normal deviates with smaller correlations (`Correlated`): the more deviates are correlated, the
more often they exceed their limits together, so the more rarely any of them does (Slepian, Bell System Technical
Journal 41 (1962), 463-501). This holds for normal errors, hence for many items; tests simulate trainings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

from lyncean.arrays import Floats, np
from lyncean.statistics.falls import lowest_change

LEVEL = 0.95
"""Coverage of all intervals of a training together."""
HORIZON = 100
"""Comparisons that share most of the error evenly; later ones share the rest, each doubling half of the remainder."""
_EVENLY = 0.9
_POWER = 0.9
"""Share of trainings in which `detectable` is found."""
_EARLY = 0.6
"""Exponent of the spending of correlated comparisons (Kim and DeMets, Biometrika 74 (1987), 149-154): later ones cost
less, and with this exponent the limits hardly change from the second to the hundredth."""
_COMMON, _WEIGHTS = np.polynomial.hermite_e.hermegauss(48)
_WEIGHTS /= _WEIGHTS.sum()


def chance(number: int) -> float:
    """Returns the error that comparison `number`, from 1, may spend: the sum over all numbers is 1 - LEVEL."""
    if number <= HORIZON:
        return (1 - LEVEL) * _EVENLY / HORIZON
    doubling = math.ceil(math.log2(number / HORIZON))
    return (1 - LEVEL) * (1 - _EVENLY) / (HORIZON * math.pow(2, 2 * doubling - 1))


class Correlated:
    """The error of each end of sequential comparisons with one baseline.

    The upper ends of all of them are below the truth with a chance of (1 - LEVEL) / 2 / `trainings` or less, and so
    are the lower ends above it. Each comparison has a loading on one common normal deviate, chosen so that the product
    of any two loadings does not exceed their correlation.

    Args:
        shared: Correlation of two comparisons whose runs are all equally noisy.
        trainings: Trainings that share the error.
    """

    def __init__(self, shared: float, trainings: int = 1) -> None:
        self._total, self._most = (1 - LEVEL) / 2 / trainings, math.sqrt(shared)
        self._loadings: list[float] = []
        self._within, self._apart = np.ones_like(_COMMON), 0.0

    def next(self, correlations: Sequence[float]) -> float:
        """Returns the error of the next comparison.

        Args:
            correlations: Correlation of its error with the error of each comparison before.
        """
        number = len(self._loadings) + 1
        pairs = zip(correlations, self._loadings, strict=True)
        loading = min([self._most, *(known / other for known, other in pairs if other)])
        self._loadings.append(max(loading, 0.0))
        if number > HORIZON:
            return float(chance(number) / (1 - LEVEL) * self._total)
        left = self._total * _EVENLY * (number / HORIZON) ** _EARLY - self._apart
        if loading <= 0:  # the union bound with all others
            error = float(left - 1 + _WEIGHTS @ self._within)
            self._apart += error
            return error
        low, high = 0.0, 10.0
        for _ in range(24):
            middle = (low + high) / 2
            if 1 - float(_WEIGHTS @ (self._within * _below(middle, loading))) > left:
                low = middle
            else:
                high = middle
        self._within *= _below(high, loading)
        return NormalDist().cdf(-high)


def _below(limit: float, loading: float) -> Floats:
    """Returns the chance of being below a limit for each value of the common deviate."""
    limits = (limit - loading * _COMMON) / math.sqrt(1 - loading**2)
    return np.asarray(np.interp(limits, *_normal()), np.float64)


@cache
def _normal() -> tuple[Floats, Floats]:
    """Returns a table of the normal distribution; chances from 1e-6 on have a relative error of 1e-5 or less."""
    deviates = np.linspace(-9.0, 9.0, 18_001)
    return deviates, np.array([NormalDist().cdf(deviate) for deviate in deviates])


def ends(sums: Floats, sizes: Floats, changed: float | None, error: float) -> tuple[float, float]:
    """Returns the interval of the difference of two paired means of shares; each end errs with chance `error`.

    Args:
        sums: Change of each cluster.
        sizes: Items of each cluster.
        changed: Share of the items that got better or worse; None for partial credit.
        error: Chance that the truth is below the interval, and that it is above.
    """
    return lowest_change(sums, sizes, changed, error), -lowest_change(-sums, sizes, changed, error)


def detectable(reach: float, standard_error: float) -> float:
    """Returns the fall whose interval is below 0 in 90% of trainings.

    `reach` is taken from the interval because few items have wider ones than a normal error.

    Args:
        reach: Distance from the difference to the upper end of its interval.
        standard_error: Standard error of the difference.
    """
    return reach + NormalDist().inv_cdf(_POWER) * standard_error
