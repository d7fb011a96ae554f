"""How small a difference a run of this size could show."""

from __future__ import annotations

import math

import numpy as np

from scorer.metrics.intervals import effective_size, gathered, standard_error
from scorer.metrics.table import Floats, Ints

DIFFERENCE = "minimum_detectable_difference"
"""Its name in Figure.details; in the figure's own unit."""

LEVEL = 0.05
"""Chance of seeing a difference where there is none."""

POWER = 0.8
"""Chance of seeing a difference of the size returned."""


def detectable(values: Floats, clusters: Ints | None) -> float | None:
    """Returns the difference of means that two runs like this one would show with POWER at LEVEL.

    For two independent runs of this size, tested two-sided; runs over the same items, compared
    item by item, show smaller ones. Shares by the arcsine transformation at the effective
    sample size, partial credit by the normal approximation. Source: Cohen, Statistical Power
    Analysis, 2nd ed. 1988, sections 6.2 and 2.2.

    Returns:
        None where it cannot be known, or where no difference within 0 and 1 would show.
    """
    from scipy.stats import norm

    sums, sizes = gathered(values, clusters)
    if len(sums) < 2:
        return None
    reach = float(norm.ppf(1 - LEVEL / 2) + norm.ppf(POWER))
    if np.isin(values, (0.0, 1.0)).all():
        angle, step = math.asin(math.sqrt(values.mean())), reach * math.sqrt(2 / effective_size(sums, sizes)) / 2
        ends = [math.sin(turned) ** 2 for turned in (angle + step, angle - step) if 0 <= turned <= math.pi / 2]
        return min((abs(end - values.mean()) for end in ends), default=None)
    return reach * math.sqrt(2) * standard_error(sums, sizes) or None
