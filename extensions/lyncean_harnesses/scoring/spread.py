"""Intervals of a harness's own aggregations, by repeating them: on single values, or on random halves of all values.

A half has every sample at most once. A bootstrap has copies, which an aggregation that keys samples by their id counts
once, and one that pairs samples takes for other samples. Means of random halves, without replacement, vary around
the mean of all as that varies around the true one (Shao and Wu, Annals of Statistics 17 (1989), 1176-1197).
"""

from __future__ import annotations

import copy
import math
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from lyncean.arrays import Floats, Ints, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics import bounds, t_quantile
from lyncean_harnesses.library import seeded
from lyncean_harnesses.library.dice import watched
from lyncean_harnesses.library.scored import Scored
from lyncean_harnesses.scoring.judge import unanswered
from lyncean_harnesses.scoring.rule import number_of
from scorer.metrics import of_mean

DRAWS = 1_000
"""Number of halves that are drawn."""
SECONDS = 300.0
"""Processor time of all halves in seconds, estimated from the first ones."""

_TIMED = 5
_MOST_UNDEFINED = 0.05
_MOST_BIAS = 0.25
"""Standard deviations by which the mean of all halves may be off; for a plain mean it is off by 0.03."""
_SAME = 1e-9
_ITS = "its aggregation"
"""Beginning of the reasons that hold for any halves."""

IntervalOrReason = tuple[pb.Interval | None, str]
"""An interval and "", or None and the reason."""


@dataclass(frozen=True, slots=True)
class Part:
    """A metric of a task in one repeat.

    Attributes:
        word: The task, as users write it.
        name: The metric.
        repeat: Number of the repeat.
        task: The task's scoring half.
        values: The metric's values in the order of the documents, copied before any aggregation.
        units: The unit of each value: its document, or its cluster by the task's `cluster_key`.
        aggregate: The aggregation of all values.
        changes: Whether an aggregation modifies its arguments.
        drew: Whether the aggregation drew random numbers.
    """

    word: str
    name: str
    repeat: int
    task: Scored
    values: list[Any]
    units: list[Hashable]
    aggregate: Any
    changes: bool
    drew: bool = False

    @property
    def value(self) -> float:
        """The aggregation of all values, as a number."""
        return float(self.aggregate)

    def again(self, rows: Sequence[int]) -> float | None:
        """Returns the aggregation of some of the values, None if it is not a number."""
        some = [self.values[row] for row in rows]
        return number_of(_aggregated(self, copy.deepcopy(some) if self.changes else some))


def part(task: Scored, about: tuple[str, str, int], values: Mapping[int, Any]) -> Part:
    """Aggregates a metric's values by document, in order; `about` is the task's name, the metric and the repeat."""
    word, name, repeat = about
    taken = list(values.values())
    kept = copy.deepcopy(taken)
    units: list[Hashable] = [number if (of := task.cluster(value)) is None else of for number, value in values.items()]
    result = Part(word, name, repeat, task, kept, units, None, False)
    with _seeded(result), watched() as drew:
        aggregate = task.aggregate(name, taken)
        return replace(result, aggregate=aggregate, changes=repr(taken) != repr(kept), drew=drew())


def _seeded(part: Part) -> AbstractContextManager[None]:
    """Makes the random numbers of an aggregation depend on the task, metric and repeat alone."""
    return seeded(f"{part.word} {part.name} {part.repeat}")


def _aggregated(part: Part, values: list[Any]) -> Any:
    with _seeded(part):
        return part.task.aggregate(part.name, values)


def of_repeats(repeats: Sequence[Part], level: float) -> IntervalOrReason:
    """Returns the interval of a task's metric, the mean over its repeats."""
    scores = [scores_of(part) for part in repeats]
    known = [estimate for estimate in scores if estimate is not None]
    if len(known) < len(scores):
        return of_halves([repeats], lambda values: math.fsum(values[0]) / len(values[0]), level)
    numbers, units = np.concatenate(known), [unit for part in repeats for unit in part.units]
    if not repeats[0].task.is_mean(repeats[0].name) and np.ptp(numbers) < _SAME:
        return None, "all samples have the same value, which does not show of how many of them it is the mean"
    clusters = _numbered(units)
    scale = 100.0 if bool(((numbers == 0) | (numbers == 100)).all()) and numbers.any() else 1.0
    clustering = None if len(set(units)) == len(units) else clusters
    estimate = of_mean(numbers / scale, clustering, level, bounds(numbers / scale))
    if estimate is None:
        return None, "fewer than two samples" if len(set(units)) < 2 else "all samples have the same value"
    return pb.Interval(low=estimate.low * scale, high=estimate.high * scale, level=level, method=estimate.method), ""


def scores_of(part: Part) -> Floats | None:
    """Returns scores whose mean is the metric: its values, or their single aggregations; None if there are none."""
    numbers = [number_of(value) for value in part.values]
    if None not in numbers and part.task.is_mean(part.name):
        return np.array(numbers, np.float64)
    count = len(part.values)
    half = count // 2
    try:
        with unanswered() as has_asked:  # questions to a judge concern all items together
            both = [_mean_of(part, [range(half), range(half, count)])] if half else []
            if has_asked() or not both or both[0] is None:
                return None
            means = _mean_of(part, [[row] for row in range(count)])
            return None if has_asked() else means
    except Exception:  # an aggregation may reject a part of its values
        return None


def _mean_of(part: Part, pieces: Sequence[Sequence[int]]) -> Floats | None:
    """Returns the aggregations of pieces of the values if that of all values is their weighted mean, else None."""
    results = [part.again(piece) for piece in pieces]
    known = [number for number in results if number is not None]
    if len(known) < len(results):
        return None
    numbers = np.array(known, np.float64)
    mean = float(np.average(numbers, weights=[len(piece) for piece in pieces]))
    return numbers if abs(mean - part.value) <= _SAME * max(1.0, abs(mean)) else None


Combine = Callable[[list[list[float]]], float | None]
"""Returns a metric from the values of its parts, by stratum and repeat."""


def of_halves(strata: Sequence[Sequence[Part]], combine: Combine, level: float) -> IntervalOrReason:
    """Returns the interval of a metric by random halves of each stratum's samples.

    Percentiles, widened for few samples to the ends of an interval by Student's t (Hesterberg, American Statistician 69
    (2015), 371-386). The seed and the order of the documents are fixed, so the same items have the same interval.

    Args:
        strata: The repeats of each task, with the same documents.
        combine: Computes the metric from the parts' aggregations of a half.
        level: Coverage, for example 0.95.

    Returns:
        The interval and "", or None and the reason why an aggregation cannot be repeated: it asks a judge, starts
        programs, takes too long, fails on halves, or its mean over halves differs from its value.
    """
    if any(part.task.starts_programs for stratum in strata for part in stratum):
        return None, f"{_ITS} starts programs, which takes too long to repeat"
    interval, reason = _of_units(strata, [_numbered(stratum[0].units) for stratum in strata], combine, level)
    if interval is not None or reason.startswith(_ITS):
        return interval, reason
    wider = [_by_field(stratum[0]) for stratum in strata]
    again = _of_units(strata, wider, combine, level)[0] if all(map(len, wider)) else None
    return (again, "") if again else (None, reason)


def _of_units(
    strata: Sequence[Sequence[Part]], units: Sequence[Ints], combine: Combine, level: float
) -> IntervalOrReason:
    counts = [int(numbers.max()) + 1 for numbers in units]
    if min(counts) < 2:
        return None, f"fewer than two samples in {strata[counts.index(min(counts))][0].word}"
    draws, why = [], ""
    started, asks = _processor_time(), False
    with unanswered() as has_asked:  # questions to a judge concern all items together
        for number, rows in enumerate(_halves(units, counts)):
            try:
                value = combine([[_number(part, indices) for part in stratum]
                                 for stratum, indices in zip(strata, rows, strict=True)])  # fmt: skip
            except (Exception, SystemExit) as error:
                value, why = None, f", {type(error).__name__} for example"
            if asks := has_asked():
                break
            draws.append(math.nan if value is None else value)
            if draws.count(math.nan) > _MOST_UNDEFINED * DRAWS:
                return None, f"undefined for more than {_MOST_UNDEFINED:.0%} of random halves of the samples{why}"
            if number == 0:
                started = _processor_time()  # the first one may load modules and data
            if number == _TIMED and (_processor_time() - started) / _TIMED * DRAWS > SECONDS:
                return None, f"{_ITS} takes too long to repeat {DRAWS:,} times"
    if asks or len(draws) < DRAWS:
        return None, f"{_ITS} asks a judge about all samples together"
    value_of_all = combine([[part.value for part in stratum] for stratum in strata])
    return _percentiles(np.array(draws), value_of_all, sum(counts) - len(counts), level)


def _number(part: Part, rows: Sequence[int]) -> float:
    number = part.again(rows)
    if number is None:
        raise ValueError("not a number")
    return number


def _percentiles(draws: Floats, value_of_all: float | None, freedom: int, level: float) -> IntervalOrReason:
    """Returns the percentiles of draws, unless their mean is off the value of all samples."""
    known = draws[np.isfinite(draws)]
    spread = float(known.std())
    if value_of_all is None or abs(float(known.mean()) - value_of_all) > _MOST_BIAS * spread + _SAME * max(
        1.0, abs(value_of_all)
    ):
        return None, "random halves of the samples have other values on average: it depends on their number"
    tail = NormalDist().cdf(-t_quantile(level, freedom))
    low, high = (round(float(end), 10) + 0.0 for end in np.quantile(known, (tail, 1 - tail)))
    if low == high:
        return None, "random halves of the samples have the same value"
    return pb.Interval(low=low, high=high, level=level, method=f"{DRAWS:,} random halves of the samples"), ""


def _halves(units: Sequence[Ints], counts: Sequence[int]) -> Iterator[list[list[int]]]:
    """Yields random halves: the rows of each stratum's drawn units; every other half of an odd number has one more."""
    random = np.random.default_rng(0)
    for draw in range(DRAWS):
        rows = []
        for numbers, count in zip(units, counts, strict=True):
            inside = np.zeros(count, np.bool_)
            inside[random.permutation(count)[: (count + draw % 2) // 2]] = True
            rows.append(np.flatnonzero(inside[numbers]).tolist())
        yield rows


def _numbered(units: Sequence[Hashable]) -> Ints:
    """Numbers the units in the order of their first occurrence."""
    numbers = {unit: number for number, unit in enumerate(dict.fromkeys(units))}
    return np.array([numbers[unit] for unit in units], np.int64)


def _by_field(part: Part) -> Ints:
    """Returns units by the field with the most distinct values among the fields whose values samples share.

    An aggregation may score the samples of one question together, as MME's does; halves must not split them.
    """
    if not all(isinstance(value, Mapping) for value in part.values):
        return np.zeros(0, np.int64)
    best: list[Hashable] = []
    for name in part.values[0]:
        values = [value.get(name) for value in part.values]
        if all(isinstance(value, (str, int)) for value in values):
            shared = Counter(values)
            if min(shared.values()) > 1 and len(shared) > max(1, len(set(best))):
                best = values
    return _numbered(best)


def _processor_time() -> float:
    return math.fsum(os.times()[:4])
