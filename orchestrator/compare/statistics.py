"""Paired tests of two runs, and the ranks of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lyncean import stats
from lyncean.stats import SHARE, UNBOUNDED
from orchestrator.compare.items import Floats, Units
from orchestrator.compare.scores import Scores, Step, common

_LEVEL = 0.95
_SEED = 20260101

Ends = tuple[float, float] | tuple[None, None]
"""Of an interval; None where the spread is unknown."""


@dataclass(frozen=True, slots=True)
class Paired:
    """One step of two runs, over the items that both have.

    Attributes:
        step: What is compared.
        items: How many items both have; groups, for an all-or-nothing metric.
        first: Mean score of the first run over them.
        second: Mean score of the second.
        low: Lower end of the 95% interval of second - first; None where the spread is unknown.
        high: Upper end.
        gained: Items that the second run has better.
        lost: Items that the first run has better.
        p: Two-sided p-value that neither is better.
        test: How it was computed.
        adjusted: `p` after Holm's correction over all steps compared.
    """

    step: Step
    items: int
    first: float
    second: float
    low: float | None
    high: float | None
    gained: int
    lost: int
    p: float
    test: str
    adjusted: float = 1.0

    @property
    def difference(self) -> float:
        """Second minus first."""
        return self.second - self.first

    @property
    def regression(self) -> bool:
        """Whether the second run is worse beyond chance, at 5 % over all steps."""
        return self.difference < 0 and self.adjusted < 0.05


def compare(first: Scores, second: Scores) -> list[Paired]:
    """Compares two runs step by step, in the first run's order."""
    steps = len(first.steps.keys() & second.steps.keys())
    found = [pair for step in first.steps if (pair := _paired(step, common([first, second], step), steps))]
    adjusted = stats.holm([pair.p for pair in found])
    return [replace(pair, adjusted=p) for pair, p in zip(found, adjusted, strict=True)]


def _paired(step: Step, units: Sequence[Units], steps: int) -> Paired | None:
    if not units or not len(units[0].names):
        return None
    one, other = units[0].scores, units[1].scores
    sums, sizes = _clusters([one, other], units[0])
    changes = sums[1] - sums[0]
    gained, lost = int((other > one).sum()), int((other < one).sum())
    binary = stats.is_binary(one) and stats.is_binary(other)
    if binary:
        low, high = stats.change_interval(changes, sizes, (gained + lost) / len(one))
    else:
        within = (-1.0, 1.0) if stats.bounds(one) == stats.bounds(other) == SHARE else UNBOUNDED
        low, high = _ends(changes, sizes, within, lambda: np.diff(stats.bootstrap(sums, sizes, _SEED))[:, 0])
    # McNemar's test takes items to be independent: where some share a group, whole groups are flipped.
    exact = binary and sizes.max() == 1
    if exact:
        p, test = stats.mcnemar(gained, lost), "McNemar exact"
    else:
        p, draws = stats.sign_flip(changes, steps, seed=_SEED)
        test = f"sign-flip permutation, {draws} draws"
    means = float(one.mean()), float(other.mean())
    return Paired(step, len(one), *means, low, high, gained, lost, p, test)


def _clusters(scores: Sequence[Floats], units: Units) -> tuple[Floats, Floats]:
    return stats.clusters(np.stack(scores), np.unique(units.clusters, return_inverse=True)[1])


def _ends(sums: Floats, sizes: Floats, within: tuple[float, float], draw: Callable[[], Floats]) -> Ends:
    found = stats.mean_interval(sums, sizes, binary=False, within=within, draw=draw)
    return (found.low, found.high) if found else (None, None)


@dataclass(frozen=True, slots=True)
class Place:
    """One run's place in one step.

    Attributes:
        name: The run.
        score: Mean score over the items that all runs have.
        low: Lower end of its 95% interval; None where the spread is unknown.
        high: Upper end.
        rank: 1 is best; runs of the same score share a rank.
        best: The best rank within the interval.
        worst: The worst.
    """

    name: str
    score: float
    low: float | None
    high: float | None
    rank: int
    best: int
    worst: int


def leaderboard(runs: Sequence[Scores], step: Step) -> tuple[int, list[Place]]:
    """Ranks runs by their mean score over the items that all of them have.

    Returns:
        How many items that is, and the places, best first.
    """
    units = common(runs, step)
    if not units or not len(units[0].names):
        return 0, []
    scores = [each.scores for each in units]
    sums, sizes = _clusters(scores, units[0])
    means = stats.bootstrap(sums, sizes, _SEED)
    ends = [_own_ends(*run, sizes) for run in zip(scores, sums, means.T, strict=True)]
    # In each draw, a run's rank is one more than the number of runs that beat it.
    ranks = np.stack([(means > means[:, [at]] + 1e-12).sum(axis=1) + 1 for at in range(len(runs))], axis=1)
    best, worst = np.quantile(ranks, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0, method="nearest")
    score = np.stack(scores).mean(axis=1)
    places = [
        Place(
            run.run.name, float(score[at]), low, high,
            int((score > score[at] + 1e-12).sum()) + 1, int(best[at]), int(worst[at]),
        )
        for at, (run, (low, high)) in enumerate(zip(runs, ends, strict=True))
    ]  # fmt: skip
    return len(scores[0]), sorted(places, key=lambda place: (place.rank, place.name))


def _own_ends(scores: Floats, sums: Floats, means: Floats, sizes: Floats) -> Ends:
    """Returns the interval of one run's mean, as results.json has it."""
    if not stats.is_binary(scores):
        return _ends(sums, sizes, stats.bounds(scores), means.copy)
    found = stats.mean_interval(sums, sizes, binary=True)
    return (found.low, found.high) if found else (None, None)
