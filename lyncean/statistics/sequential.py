"""Confidence sequences: intervals that hold at every look, so that a run may stop as soon as they are narrow enough.

The population is finite: the units (items, or groups of items that belong together) of one benchmark, drawn one by one
in random order without replacement. The interval is for the metric over all of them.
bench/bench_sequential.py measures coverage and width.
"""

from __future__ import annotations

import math

from lyncean.arrays import np

_STEPS = 4000
"""Candidates for a mean of shares; the ends are one step away from the refuted candidates."""
_MOST = 0.75
"""Largest share of its capital that a bet risks."""
_EARLY = 0.25
"""Share of the units after which the interval is narrowest for its size without a target width."""


class ConfidenceSequence:
    """A confidence sequence of sum(totals) / sum(sizes) over a finite population of units.

    Each candidate r is tested by two bets on z = total - r * size, whose mean over all units is 0 if r is the truth:
    one gains if the truth is larger, the other if it is smaller. A candidate is refuted for good once a bet has
    multiplied its capital by 2 / (1 - level) (Ville's inequality), so the chance that the truth is ever refuted is at
    most 1 - level for any number of looks. Bets grow as 1 / (units left), which gives the finite-population
    correction, and depend on earlier units alone.

    Source: Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024), 1-27,
    section 5 (without replacement); the ratio and the growth of the bets are ours.

    Args:
        units: Units of the population.
        items: Sum of all sizes.
        largest: The largest size.
        bounds: Bounds of total / size of each unit.
        level: Coverage over all looks together.
        width: Target width at which to stop; None for none.

    Attributes:
        count: Units so far.
        items: Sum of their sizes.
        total: Sum of their totals.
        low: Lower end.
        high: Upper end.
    """

    def __init__(
        self,
        units: int,
        items: int,
        largest: int,
        bounds: tuple[float, float] = (0.0, 1.0),
        *,
        level: float = 0.95,
        width: float | None = None,
    ) -> None:
        self.count, self.items, self.total = 0, 0, 0.0
        self.low, self.high = bounds
        self._units, self._all, self._largest, self._bounds = units, items, largest, bounds
        self._threshold, self._width = math.log(2 / (1 - level)), width
        self._grid = np.linspace(*bounds, round(_STEPS * (bounds[1] - bounds[0])) + 1)
        self._up, self._down = np.zeros(len(self._grid)), np.zeros(len(self._grid))
        spread = (bounds[1] - bounds[0]) / 4 * items / max(units, 1)
        self._squares = spread**2
        self._smallest = self._squares / 1000

    @property
    def value(self) -> float:
        """The mean so far."""
        return self.total / self.items if self.items else math.nan

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low

    @property
    def complete(self) -> bool:
        """True if all units were added: the interval is then the value itself."""
        return self.count == self._units

    def add(self, total: float, size: int) -> None:
        """Adds the next unit of the random order.

        Raises:
            ValueError: The unit cannot belong to the population.
        """
        low, high = self._bounds
        if not (0 <= size <= self._largest and low * size <= total <= high * size) or self.complete:
            raise ValueError(f"a unit with total {total} and size {size} is none of the population")
        left = self._units - self.count
        bet = self._bet(left)
        mean = (self._grid * self.items - self.total) / left
        gain = total - self._grid * size - mean
        # Cap the bets so that no unit can ruin them.
        up = np.minimum(bet, _MOST / np.maximum(mean - self._largest * (low - self._grid), 1e-12))
        down = np.minimum(bet, _MOST / np.maximum(self._largest * (high - self._grid) - mean, 1e-12))
        self._up += np.log(np.maximum(1 + up * gain, 1 - _MOST))
        self._down += np.log(np.maximum(1 - down * gain, 1 - _MOST))
        middle = self.total / self.items if self.items else (low + high) / 2
        self._squares += (total - middle * size) ** 2
        self.count, self.items, self.total = self.count + 1, self.items + size, self.total + total
        self._narrow()

    def _bet(self, left: int) -> float:
        """Returns the bet that makes the interval narrowest at the planned stop."""
        variance = max(self._squares / (self.count + 1), self._smallest)
        if self._width:
            aim = self._width / 2 * self._all / self._units
            stop = 1 / (1 / self._units + aim**2 / (2 * self._threshold * variance))
        else:
            stop = _EARLY * self._units
        stop = min(max(stop, self.count + 1), self._units - 0.5)
        scale = 2 * self._threshold / variance * (1 / stop - 1 / self._units)
        return math.sqrt(scale) * self._units / left

    def _narrow(self) -> None:
        """Moves the ends past the refuted candidates and drops these."""
        # Values between two candidates are not tested: one is kept as long as the candidate beyond it is.
        below, above = self._up < self._threshold, self._down < self._threshold
        first = int(np.argmax(below)) if below.any() else len(self._grid)
        last = len(self._grid) - 1 - int(np.argmax(above[::-1])) if above.any() else -1
        if first <= last:
            if first > 0:
                self.low = max(self.low, float(self._grid[first - 1]))
            if last + 1 < len(self._grid):
                self.high = min(self.high, float(self._grid[last + 1]))
            window = slice(max(first - 1, 0), last + 2)
            self._grid, self._up, self._down = self._grid[window], self._up[window], self._down[window]
        rest = self._all - self.items
        if self.complete:
            self.low = self.high = self.value
            return
        self.low = max(self.low, (self.total + self._bounds[0] * rest) / self._all)
        self.high = max(self.low, min(self.high, (self.total + self._bounds[1] * rest) / self._all))
