"""Paired tests and intervals. Everything is deterministic: the draws come from a fixed seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from orchestrator.compare import intervals
from orchestrator.compare.intervals import LEVEL
from orchestrator.compare.items import Floats, Units
from orchestrator.compare.scores import Scores, Step, common

DRAWS = 2000
_FINE = 20
"""How many times smaller than its share of the level a p must be able to get, and how many draws as large as what was
seen make more of them needless."""
_SEED = 20260101
_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class Paired:
    """One step of two runs, over the items that both have.

    Attributes:
        step: What is compared.
        items: How many items both have; groups, for an all-or-nothing figure.
        first: Mean score of the first run over them.
        second: Mean score of the second.
        low: Lower end of the interval of second - first (`intervals`); None where there is none.
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
    adjusted = holm([pair.p for pair in found])
    return [replace(pair, adjusted=p) for pair, p in zip(found, adjusted, strict=True)]


def _paired(step: Step, units: Sequence[Units], steps: int) -> Paired | None:
    if not units or not len(units[0].names):
        return None
    one, other = units[0].scores, units[1].scores
    sums, sizes = clusters(np.stack([one, other]), units[0].clusters)
    gained, lost = int((other > one).sum()), int((other < one).sum())
    binary = _binary(one) and _binary(other)
    if binary:
        low, high = intervals.of_change(sums[1] - sums[0], sizes, (gained + lost) / len(one))
    else:
        within = (-1.0, 1.0) if _share(one) and _share(other) else (-np.inf, np.inf)
        low, high = intervals.of_values(sums[1] - sums[0], sizes, lambda: _differences(sums, sizes), within)
    # McNemar's test takes items to be independent: where some share a group, whole groups are flipped.
    exact = binary and sizes.max() == 1
    if exact:
        p, test = mcnemar(gained, lost), "McNemar exact"
    else:
        p, draws = sign_flip(sums[1] - sums[0], steps)
        test = f"sign-flip permutation, {draws} draws"
    means = float(one.mean()), float(other.mean())
    return Paired(step, len(one), *means, low, high, gained, lost, p, test)


def _binary(scores: Floats) -> bool:
    return bool(np.isin(scores, (0.0, 1.0)).all())


def _share(scores: Floats) -> bool:
    return bool(((scores >= 0) & (scores <= 1)).all())


def mcnemar(gained: int, lost: int) -> float:
    """Returns the exact two-sided p-value of McNemar's test: a fair coin over the discordant pairs."""
    if gained + lost == 0:
        return 1.0
    return float(stats.binomtest(gained, gained + lost, 0.5).pvalue)


def sign_flip(differences: Floats, steps: int = 1) -> tuple[float, int]:
    """A permutation test: each cluster's difference may have either sign.

    Args:
        differences: Of each cluster.
        steps: How many tests Holm's correction is over. No p is below 1 / (draws + 1), which has to be far below
            what the correction leaves of 5 % for each: where the first draws leave a small p there are more of them.

    Returns:
        The two-sided p-value, and from how many draws.
    """
    # Exactly rounded, so that the order of the clusters is of no consequence.
    seen = abs(fsum(differences))
    if seen == 0:
        return 1.0, DRAWS
    rng = np.random.default_rng(_SEED)
    # Clusters of the same difference are exchangeable: how many of them keep their sign is binomial.
    values, counts = np.unique(np.abs(differences[differences != 0]), return_counts=True)

    def drawn(draws: int) -> int:
        as_large = 0
        for batch in _batches(len(values), draws):
            kept = rng.binomial(counts, 0.5, size=(batch, len(values)))
            as_large += int((np.abs((2.0 * kept - counts) @ values) >= seen - 1e-12).sum())
        return as_large

    as_large, draws = drawn(DRAWS), DRAWS
    wanted = round(_FINE * steps / (1 - LEVEL))
    if wanted > draws and as_large < _FINE:
        as_large, draws = as_large + drawn(wanted - draws), wanted
    return (as_large + 1) / (draws + 1), draws


def clusters(scores: Floats, groups: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Sums scores by group.

    Args:
        scores: Runs x items.
        groups: The number of each item's group.

    Returns:
        Runs x groups sums, and the number of items of each group.
    """
    _, codes = np.unique(groups, return_inverse=True)
    sums: Floats = np.stack([np.bincount(codes, weights=row) for row in scores]).astype(np.float64)
    return sums, np.bincount(codes).astype(np.float64)


def resample(sums: Floats, sizes: Floats) -> Floats:
    """Returns draws x runs means, each draw over as many groups taken with replacement."""
    rng = np.random.default_rng(_SEED)
    # Groups of the same sums and size are exchangeable: what counts is how many of each kind are drawn.
    kinds, counts = np.unique(np.vstack([sums, sizes]), axis=1, return_counts=True)
    means = []
    for batch in _batches(len(counts), DRAWS):
        weights = rng.multinomial(len(sizes), counts / len(sizes), size=batch).astype(np.float64)
        drawn = weights @ kinds.T
        means.append(drawn[:, :-1] / drawn[:, -1:])
    return np.concatenate(means)


def _batches(width: int, draws: int) -> Iterator[int]:
    """Yields numbers of draws that together are all, each few enough to fit into little memory."""
    most = max(1, _CELLS // max(1, width))
    for start in range(0, draws, most):
        yield min(most, draws - start)


def _differences(sums: Floats, sizes: Floats) -> Floats:
    means = resample(sums, sizes)
    difference: Floats = means[:, 1] - means[:, 0]
    return difference


def holm(values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted by Holm's step-down procedure."""
    adjusted, largest = [1.0] * len(values), 0.0
    for rank, at in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[at]))
        adjusted[at] = largest
    return adjusted


@dataclass(frozen=True, slots=True)
class Place:
    """One run's place in one step.

    Attributes:
        name: The run.
        score: Mean score over the items that all runs have.
        low: Lower end of its interval (`intervals`); None where there is none.
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
    scores = np.stack([each.scores for each in units])
    sums, sizes = clusters(scores, units[0].clusters)
    means = resample(sums, sizes)
    ends = [
        intervals.of_share(own, sizes)
        if _binary(each)
        else intervals.of_values(own, sizes, drawn.copy, (0.0, 1.0) if _share(each) else (-np.inf, np.inf))
        for own, each, drawn in zip(sums, scores, means.T, strict=True)
    ]
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    # In each draw, a run's rank is one more than the number of runs that beat it.
    ranks = np.stack([(means > means[:, [at]] + 1e-12).sum(axis=1) + 1 for at in range(len(runs))], axis=1)
    best, worst = np.quantile(ranks, tails, axis=0, method="nearest")
    score = scores.mean(axis=1)
    places = [
        Place(
            run.run.name, float(score[at]), low, high,
            int((score > score[at] + 1e-12).sum()) + 1, int(best[at]), int(worst[at]),
        )
        for at, (run, (low, high)) in enumerate(zip(runs, ends, strict=True))
    ]  # fmt: skip
    return scores.shape[1], sorted(places, key=lambda place: (place.rank, place.name))
