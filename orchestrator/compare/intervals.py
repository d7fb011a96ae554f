"""Confidence intervals at 95 %: of a run's mean, as results.json has it, and of the difference between two runs.

A bootstrap of scores that are 0 or 1 has too little width where few of them change, and none where all change alike.
In simulations of 40 items of which 5 % get better and 2 % worse it covered the truth in 86 %, what stands here in 99 %.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from orchestrator.engine.accounting import wilson

LEVEL = 0.95
FEW = 30
"""Groups below which a bootstrap is known to be too narrow."""

Floats = NDArray[np.float64]
Ends = tuple[float, float] | tuple[None, None]
"""None where nothing is known of the spread: one group of several items, or partial credit alike in every group."""

_UNKNOWN: Ends = (None, None)

_TAIL = (1 + LEVEL) / 2
_NO_SPREAD = 1e-12


def of_share(sums: Floats, sizes: Floats) -> Ends:
    """Returns Wilson's interval of a share, at the effective sample size where items come in groups.

    Source: Korn and Graubard, Survey Methodology 24 (1998), 193-201.

    Args:
        sums: How many items of each group are right.
        sizes: How many there are.
    """
    share = float(sums.sum() / sizes.sum())
    size = _effective(sums, sizes, share * (1 - share))
    return _UNKNOWN if size is None else wilson(share * size, size)


def of_change(sums: Floats, sizes: Floats, changed: float) -> Ends:
    """Returns the interval of the difference of two paired shares, at the effective sample size.

    Source: Bonett and Price, Journal of Educational and Behavioral Statistics 37 (2012), 479-488: one item more
    that got better, and one that got worse.

    Args:
        sums: How many more items of each group are right in the second run than in the first.
        sizes: How many items each group has.
        changed: Share of the items that got better or worse.
    """
    difference = float(sums.sum() / sizes.sum())
    size = _effective(sums, sizes, changed - difference**2)
    if size is None:
        return _UNKNOWN
    middle = difference * size / (size + 2)
    spread = float(stats.norm.ppf(_TAIL)) * np.sqrt(((changed * size + 2) / (size + 2) - middle**2) / (size + 2))
    return max(-1.0, float(middle - spread)), min(1.0, float(middle + spread))


def of_values(
    sums: Floats, sizes: Floats, draw: Callable[[], Floats], within: tuple[float, float] = (-np.inf, np.inf)
) -> Ends:
    """Returns the interval of a mean of partial credit, or of its difference.

    Args:
        sums: Sum of each group.
        sizes: How many items each group has.
        draw: Makes the means of resamples of whole groups.
        within: What the mean can be: Student's t knows of no bounds.
    """
    if len(sums) < 2 or (error := _standard_error(sums, sizes)) < _NO_SPREAD:
        return _UNKNOWN
    if len(sums) < FEW:
        mean, reach = float(sums.sum() / sizes.sum()), float(stats.t.ppf(_TAIL, len(sums) - 1)) * error
        return max(mean - reach, within[0]), min(mean + reach, within[1])
    low, high = np.quantile(draw(), [1 - _TAIL, _TAIL])
    return float(low), float(high)


def _effective(sums: Floats, sizes: Floats, variance: float) -> float | None:
    """Returns how many independent items would know a mean as well as these groups do.

    Args:
        sums: Sum of each group.
        sizes: How many items each group has.
        variance: Of the items' values.
    """
    number, groups = float(sizes.sum()), len(sizes)
    if number == groups:
        return number
    if groups < 2:
        return None
    size, error = number, _standard_error(sums, sizes)
    if variance < _NO_SPREAD:
        size = groups
    elif error >= _NO_SPREAD:
        size = min(variance / error**2, number)
    return float(size * (stats.norm.ppf(_TAIL) / stats.t.ppf(_TAIL, groups - 1)) ** 2)


def _standard_error(sums: Floats, sizes: Floats) -> float:
    """Returns the standard error of sum(sums) / sum(sizes), linearized (Cochran, Sampling Techniques, 1977, 6.4)."""
    return float(stats.sem(sums - sums.sum() / sizes.sum() * sizes) / sizes.mean())
