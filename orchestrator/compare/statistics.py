"""Paired tests of two runs, and the ranks of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lyncean.statistics import intervals as stats, significance
from lyncean.statistics.intervals import SHARE, UNBOUNDED
from orchestrator.compare.falls import Fall, of_tasks
from orchestrator.compare.items import Floats, Units
from orchestrator.compare.scores import Scores, Step, common

POOLED = Step("all tasks", "")
"""The primary metrics of several tasks as one."""

_LEVEL = 0.95
_ALPHA = 0.05
_SEED = 20260101
_LEAST_CHANGES = 6
"""Groups of items with other scores from which an order of two runs can reach 5%: a sign test of 5 ends at 1/16."""
_TOO_FEW = "too few changes to reach 5%"

Ends = tuple[float, float] | tuple[None, None]
"""Ends of an interval; None if the spread is unknown."""


@dataclass(frozen=True, slots=True)
class Paired:
    """One step of two runs, over the items that both have.

    Attributes:
        step: The step that is compared.
        items: Number of items that both have; groups, for an all-or-nothing metric.
        first: Mean score of the first run over them.
        second: Mean score of the second.
        low: Lower end of the 95% interval of second - first; None if the spread is unknown.
        high: Upper end.
        gained: Items that the second run scores higher.
        lost: Items that the first run scores higher.
        p: Two-sided p-value that neither is better; None for a step that is reported but not tested.
        test: The test, with a note if so few changes could not have reached 5%; "" without a test.
        detectable: Change that items which vary like these show at 5%, two-sided, with power 0.8; the same for a
            rise and for a fall. None if the spread is unknown or no change within 0 and 1 is detectable.
        adjusted: `p` after Holm's correction over the tasks that could have been significant.
        fall: Test of a fall of this task, over all tasks together; None for a single task, and for other steps.
    """

    step: Step
    items: int
    first: float
    second: float
    low: float | None
    high: float | None
    gained: int
    lost: int
    p: float | None
    test: str
    detectable: float | None
    adjusted: float | None = None
    fall: Fall | None = None

    @property
    def beyond_reach(self) -> bool:
        """True if the test could not have been significant for any signs of its changes."""
        return self.test.endswith(_TOO_FEW)

    @property
    def interval(self) -> str:
        """The interval of the difference in points, "[-2.1, +3.0]"; "" if the spread is unknown."""
        return points(self.low, self.high, "+")

    @property
    def difference(self) -> float:
        """Second minus first."""
        return self.second - self.first

    @property
    def regression(self) -> bool:
        """True if the second run is worse beyond chance, at 5% over all tasks."""
        if self.fall:
            return self.fall.p < _ALPHA
        return self.difference < 0 and self.significant

    @property
    def significant(self) -> bool:
        """True if the runs differ beyond chance, at 5% over all tasks."""
        return self.adjusted is not None and self.adjusted < _ALPHA


def points(low: float | None, high: float | None, sign: str = "") -> str:
    """Returns an interval of fractions in points, "" if there is none."""
    return "" if low is None or high is None else f"[{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def compare(first: Scores, second: Scores) -> list[Paired]:
    """Compares two runs step by step, in the first run's order; only the primary metric of a task is tested."""
    return compare_units(shared(first, second))


def shared(first: Scores, second: Scores) -> dict[Step, Sequence[Units]]:
    """Returns each step that both runs have, in the first run's order, with its units in both."""
    by_step = {step: common([first, second], step) for step in first.steps}
    return {step: units for step, units in by_step.items() if units and len(units[0].names)}


def compare_units(units: dict[Step, Sequence[Units]]) -> list[Paired]:
    """Compares the units of the first and of the second run, which have the same order, step by step.

    A task's first step is its primary metric, the only one that is tested: its slices and parts have the same items,
    and a correction over all of them would hide the task's result. A test that could not have reached 5% for any signs
    of its changes is left out of the correction (Tarone, Biometrics 46 (1990), 515-522).
    """
    primary = _primary(units)
    able = [step for step in primary.values() if _smallest_p(units[step]) < _ALPHA]
    pairs = [
        _paired(step, both, max(1, len(able)) if primary.get(step.task) == step else 0) for step, both in units.items()
    ]
    holm = significance.holm([pair.p for pair in pairs if pair.step in able and pair.p is not None])
    adjusted = dict(zip((pair.step for pair in pairs if pair.step in able), holm, strict=True))
    falls = of_tasks({step: units[step] for step in primary.values()})
    only = len(primary) == 1  # there is nothing to correct for
    return [
        replace(
            pair,
            adjusted=None if pair.p is None else adjusted.get(pair.step, pair.p if only else 1.0),
            fall=falls.get(pair.step),
            test=pair.test if pair.p is None or pair.step in able else f"{pair.test}; {_TOO_FEW}",
        )
        for pair in pairs
    ]


def pool(units: dict[Step, Sequence[Units]]) -> Paired | None:
    """Compares two runs over the primary metrics of all tasks as one, with equal weights of the items.

    Takes the argument of `compare_units`. Tasks on the same rows share their clusters. Metrics that are not shares are
    left out.
    """
    steps = _pooled_steps(units)
    if not steps:
        return None
    if len(steps) == 1:
        pair = _paired(steps[0], units[steps[0]], 1)
        return replace(pair, adjusted=pair.p)
    pair = _paired(POOLED, _together(units, steps), 1)
    return replace(pair, adjusted=pair.p)


def pooled(runs: Sequence[Scores]) -> list[Units]:
    """Returns the units of `pool` for several runs, in the same order; empty if they have none in common."""
    units = {step: common(runs, step) for step in runs[0].steps}
    units = {step: sides for step, sides in units.items() if sides and len(sides[0].names)}
    steps = _pooled_steps(units)
    return _together(units, steps) if steps else []


def _pooled_steps(units: Mapping[Step, Sequence[Units]]) -> list[Step]:
    primary = _primary(units).values()
    return [step for step in units if step in primary and _shares(units[step])]


def _together(units: Mapping[Step, Sequence[Units]], steps: Sequence[Step]) -> list[Units]:
    return [
        Units(*(np.concatenate([getattr(units[step][run], name) for step in steps]) for name in Units.__slots__))
        for run in range(len(units[steps[0]]))
    ]


def _primary(steps: Iterable[Step]) -> dict[str, Step]:
    """Returns each task's first step; groups are left out because they repeat the items of their tasks."""
    primary: dict[str, Step] = {}
    for step in steps:
        if not step.group:
            primary.setdefault(step.task, step)
    return primary


def _shares(units: Sequence[Units]) -> bool:
    return all(stats.bounds(side.scores) == SHARE for side in units)


def _smallest_p(units: Sequence[Units]) -> float:
    """Returns the p-value of these changes if all had the same sign, for McNemar's test and for sign flips."""
    sums, _ = clusters(units)
    return float(min(1.0, 2.0 ** (1 - np.count_nonzero(sums[1] - sums[0]))))


def _paired(step: Step, units: Sequence[Units], tests: int) -> Paired:
    """Compares one step; `tests` is the number of tests in Holm's correction, 0 for a step that is not tested."""
    one, other = units[0].scores, units[1].scores
    sums, sizes = clusters(units)
    changes = sums[1] - sums[0]
    gained, lost = int((other > one).sum()), int((other < one).sum())
    binary = stats.is_binary(one) and stats.is_binary(other)
    changed = (gained + lost) / len(one) if binary else None
    if changed is not None:
        low, high = stats.change_interval(changes, sizes, changed)
    else:
        interval = stats.mean_interval(
            changes,
            sizes,
            binary=False,
            within=(-1.0, 1.0) if _shares(units) else UNBOUNDED,
            draw=lambda: np.diff(stats.bootstrap(sums, sizes, _SEED))[:, 0],
        )
        low, high = (interval.low, interval.high) if interval else (None, None)
    p, test = _test(changes, sizes, gained, lost, tests, binary=binary) if tests else (None, "")
    means = float(one.mean()), float(other.mean())
    detectable = stats.detectable_change(changes, sizes, changed)
    return Paired(step, len(one), *means, low, high, gained, lost, p, test, detectable)


def _test(changes: Floats, sizes: Floats, gained: int, lost: int, tests: int, *, binary: bool) -> tuple[float, str]:
    # McNemar's test assumes independent items: if some share a group, whole groups are flipped.
    if binary and sizes.max() == 1:
        return significance.mcnemar(gained, lost), "McNemar exact"
    p, draws = significance.sign_flip(changes, tests, seed=_SEED)
    return p, f"sign-flip permutation, {draws} draws"


def clusters(units: Sequence[Units]) -> tuple[Floats, Floats]:
    """Returns the sum of each run's scores in each cluster, and the clusters' sizes."""
    scores = [side.scores for side in units]
    order = np.argsort(units[0].clusters, kind="stable")
    ordered = units[0].clusters[order]
    first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    del ordered
    if first.all():  # every item is its own cluster, as in most runs: nothing to add up
        return np.stack([side[order] for side in scores]), np.ones(len(order))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(first) - 1
    del order, first
    return stats.clusters(scores, numbers)


@dataclass(frozen=True, slots=True)
class Place:
    """One run's rank in one step.

    Attributes:
        name: The run.
        score: Mean score over the items that all runs have.
        low: Lower end of its 95% interval; None if the spread is unknown.
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
        The number of these items, and the ranks, best first.
    """
    units = common(runs, step)
    if not units or not len(units[0].names):
        return 0, []
    scores = [side.scores for side in units]
    sums, sizes = clusters(units)
    means = stats.bootstrap(sums, sizes, _SEED)
    ends = [_own_ends(*run, sizes) for run in zip(scores, sums, means.T, strict=True)]
    # In each draw, a run's rank is one more than the number of runs that beat it.
    ranks = np.stack([(means > means[:, [at]] + 1e-12).sum(axis=1) + 1 for at in range(len(runs))], axis=1)
    best, worst = np.quantile(ranks, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0, method="nearest")
    score = np.stack(scores).mean(axis=1)
    for at in range(len(runs)):  # draws of a few changes all have the same sign
        changes = (sums != sums[at]).sum(axis=1)
        beats, open_order = score > score[at] + 1e-12, (changes > 0) & (changes < _LEAST_CHANGES)
        best[at] = min(best[at], 1 + (beats & ~open_order).sum())
        worst[at] = max(worst[at], 1 + (beats | open_order).sum())
    places = [
        Place(
            run.run.name, float(score[at]), low, high,
            int((score > score[at] + 1e-12).sum()) + 1, int(best[at]), int(worst[at]),
        )
        for at, (run, (low, high)) in enumerate(zip(runs, ends, strict=True))
    ]  # fmt: skip
    return len(scores[0]), sorted(places, key=lambda standing: (standing.rank, standing.name))


def to_best(runs: Sequence[Scores], step: Step) -> list[Paired | None]:
    """Compares every run with the one of the highest mean score, over the items that all of them have.

    The same items choose the best run, so p-values are multiplied by the number of all pairs of runs (Bonferroni):
    a run that is as good is called worse in at most 5% of such steps.

    Returns:
        Each run's comparison with the best one (`Paired.first`), None for the best; empty without common items.
    """
    units = common(runs, step)
    if not units or not len(units[0].names):
        return []
    pairs = len(runs) * (len(runs) - 1) // 2
    means = [float(candidate.scores.mean()) for candidate in units]
    best = means.index(max(means))
    compared: list[Paired | None] = []
    for at, candidate in enumerate(units):
        pair = None if at == best else _paired(step, [units[best], candidate], pairs)
        compared.append(pair and replace(pair, adjusted=None if pair.p is None else min(1.0, pair.p * pairs)))
    return compared


def _own_ends(scores: Floats, sums: Floats, means: Floats, sizes: Floats) -> Ends:
    """Returns the interval of one run's mean, as in results.json."""
    binary, within = stats.is_binary(scores), stats.bounds(scores)
    interval = stats.mean_interval(sums, sizes, binary=binary, within=within, draw=means.copy)
    return (interval.low, interval.high) if interval else (None, None)
