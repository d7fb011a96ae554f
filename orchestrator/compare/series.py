"""Compares a training's checkpoints with a baseline that may move, and raises alarms.

Each checkpoint is compared with its baseline twice. The first comparison takes the checkpoint alone. The second takes
the mean of it and the checkpoint before it, against the baseline of that earlier one. The mean has less of the noise of
single checkpoints: a fall that one checkpoint hardly shows is found with the next, unless that one is not lower. Both
comparisons spend half of the checkpoint's error (`lyncean.statistics.series`), so the false alarms of a whole training
are 5% or less. Comparisons with a fixed baseline may each spend more because they share its noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lyncean.statistics import intervals as stats, series
from orchestrator.compare import statistics
from orchestrator.compare.items import Floats, Units
from orchestrator.compare.scores import Scores
from orchestrator.compare.statistics import points

PREVIOUS, BEST = "previous", "best"
"""Baselines that move: the model before, and the best model before."""


@dataclass(frozen=True, slots=True)
class Change:
    """The comparison of one checkpoint with its baseline, over the items of all tasks that both have.

    Attributes:
        model: The checkpoint.
        variant: The suite's variant, "" if there is none.
        baseline: The model that it is compared with.
        items: Items that both have.
        difference: Mean score of the checkpoint minus that of the baseline, a fraction.
        low: Lower end of the confidence sequence of the difference: the intervals of all checkpoints of a training
            hold together in 95% of trainings.
        high: Upper end.
        alarm: True if the model fell, at 5% over the whole training.
        why: The alarm in one sentence, "" if there is none.
        detectable: The fall that is found within two checkpoints in 90% of trainings with items that vary like these;
            None if their spread is unknown.
        noise: Change between two passes of the same requests (`check --drift`), up to which a change is noise; None if
            it was not measured.
    """

    model: str
    variant: str
    baseline: str
    items: int
    difference: float
    low: float
    high: float
    alarm: bool = False
    why: str = ""
    detectable: float | None = None
    noise: float | None = None

    @property
    def is_noise(self) -> bool:
        """True if the server alone causes changes as large with the same requests."""
        return self.noise is not None and abs(self.difference) <= self.noise

    def as_json(self) -> dict[str, Any]:
        """Returns the change as JSON."""
        return asdict(self) | {"is_noise": self.is_noise}


@dataclass(frozen=True, slots=True)
class _Interval:
    """The interval of one comparison, and its standard error.

    `newest` is the difference of the newest run alone.
    """

    items: int
    difference: float
    newest: float
    low: float
    high: float
    spread: float

    @property
    def detectable(self) -> float | None:
        return series.detectable(self.high - self.difference, self.spread) if self.spread else None

    @property
    def text(self) -> str:
        return f"{100 * self.difference:+.1f} points {points(self.low, self.high, '+')}"


def changes(
    runs: Sequence[Scores], baseline: Scores | str, variant: str = "", *, trainings: int = 1, noise: float | None = None
) -> list[Change]:
    """Returns the change of each run that has a baseline.

    Args:
        runs: The models in the order of their steps, each with all of its tasks; a name is the model's, followed by
            the variant.
        baseline: `PREVIOUS`, `BEST`, or the run that all are compared with.
        variant: Value of `Change.variant`.
        trainings: Number of variants that share the 5%.
        noise: Value of `Change.noise`.
    """
    means = [_mean(run) for run in runs] if baseline == BEST else []
    results: list[Change] = []
    fixed = None if isinstance(baseline, str) else (_Errors(1 / 2, trainings), _Errors(2 / 3, trainings))
    for at, run in enumerate(runs):
        number = len(results) + 1
        first, chosen = _baseline(runs, at, baseline, means)
        if first is None or first is run:
            continue
        error = series.chance(number) / 2 / trainings
        alone = _interval([run], [first], fixed[0] if fixed else _constant(error / chosen))
        if alone is None:
            continue
        together = None
        earlier, among = _earlier(runs, at, baseline, means)
        if earlier and not any(runs[at - 1] is one for one in earlier):
            together = _interval([run, runs[at - 1]], earlier, fixed[1] if fixed else _constant(error / among))
        why = ""
        if alone.high < 0:
            why = f"fell from {_name(first, variant)}: {alone.text}"
        elif together and together.high < 0 and together.newest < 0 and not (results and results[-1].alarm):
            names = " and ".join(_name(one, variant) for one in reversed(earlier))
            why = f"fell with {_name(runs[at - 1], variant)}, the two together against {names}: {together.text}"
        results.append(
            Change(
                _name(run, variant),
                variant,
                _name(first, variant),
                *(alone.items, alone.difference, alone.low, alone.high),
                alarm=bool(why),
                why=why,
                detectable=(together or alone).detectable,
                noise=noise,
            )
        )
    return results


def _name(run: Scores, variant: str) -> str:
    return run.run.name.removesuffix(f" {variant}") if variant else run.run.name


def baselines(runs: Sequence[Scores], baseline: str) -> list[Scores | None]:
    """Returns the `PREVIOUS` or `BEST` run before each run; None for the first one."""
    means = [_mean(run) for run in runs] if baseline == BEST else []
    return [_baseline(runs, at, baseline, means)[0] for at in range(len(runs))]


def _baseline(
    runs: Sequence[Scores], at: int, baseline: Scores | str, means: Sequence[float]
) -> tuple[Scores | None, int]:
    """Returns the baseline of run `at`, and the number of runs among which its scores chose it."""
    if not isinstance(baseline, str):
        return baseline, 1
    if not at:
        return None, 1
    if baseline == PREVIOUS:
        return runs[at - 1], 1
    return runs[int(np.argmax(means[:at]))], at


def _earlier(
    runs: Sequence[Scores], at: int, baseline: Scores | str, means: Sequence[float]
) -> tuple[list[Scores], int]:
    """Returns the baseline of run `at` together with the one before, and the number of runs it was chosen from."""
    if not at:
        return [], 1
    first, chosen = _baseline(runs, at - 1, baseline, means)
    if first is None:
        return [], 1
    return ([runs[at - 2], runs[at - 3]] if baseline == PREVIOUS and at > 2 else [first]), chosen


def _mean(run: Scores) -> float:
    units = statistics.pooled([run])
    return float(units[0].scores.mean()) if units else -1.0


class _Errors:
    """The error of each end of comparisons with one fixed baseline (`series.Correlated`)."""

    def __init__(self, shared: float, trainings: int) -> None:
        self._spent = series.Correlated(shared, trainings)
        self._before: list[tuple[NDArray[np.float32], NDArray[np.uint64]]] = []

    def __call__(self, residuals: Floats, clusters: NDArray[np.uint64]) -> float:
        norm = float(np.linalg.norm(residuals))
        unit = (residuals / norm if norm else residuals).astype(np.float32)
        # The correlation with residuals of other items is unknown.
        same = [np.array_equal(clusters, others) for _, others in self._before]
        correlations = [float(unit @ one) if alike else 0.0 for (one, _), alike in zip(self._before, same, strict=True)]
        if any(same):
            clusters = self._before[same.index(True)][1]
        self._before.append((unit, clusters))
        return self._spent.next(correlations)


_Spend = Callable[[Floats, NDArray[np.uint64]], float]
"""Returns the error of a comparison from each cluster's part of its standard error and the clusters of the items."""


def _constant(error: float) -> _Spend:
    return lambda *_: error


def _interval(after: Sequence[Scores], before: Sequence[Scores], spend: _Spend) -> _Interval | None:
    """Compares the mean of some runs with that of others; None if they have nothing in common."""
    units = statistics.pooled([*before, *after])
    if not units:
        return None
    both = [_averaged(units[: len(before)]), _averaged(units[len(before) :])]
    sums, sizes = statistics.clusters(both)
    moved = sums[1] - sums[0]
    one, other = (side.scores for side in both)
    binary = stats.is_binary(one) and stats.is_binary(other)
    difference = float(moved.sum() / sizes.sum())
    error = spend(moved - difference * sizes, units[0].clusters)
    low, high = series.ends(moved, sizes, float((one != other).mean()) if binary else None, error)
    spread = stats.standard_error(moved, sizes) if len(sizes) > 1 else 0.0
    newest = float(units[len(before)].scores.mean() - one.mean())
    return _Interval(len(one), float(other.mean() - one.mean()), newest, low, high, spread)


def _averaged(units: Sequence[Units]) -> Units:
    scores: Floats = np.mean([side.scores for side in units], axis=0)
    return Units(units[0].names, scores, units[0].clusters)
