"""Intervals of a harness's own aggregations, by repeating them: of each value alone, or of random halves of them all.

A half has every sample at most once, where a bootstrap has copies, which an aggregation that keeps samples by their id
counts once and one that takes them in pairs takes for others. Means of random halves, without replacement, vary around
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
"""Halves that are drawn."""
SECONDS = 300.0
"""Processor time that all halves may take, by the time of the first ones."""

_TIMED = 5
_MOST_UNDEFINED = 0.05
_MOST_BIAS = 0.25
"""Standard deviations by which the mean of all halves may be off: that of any mean is off by 0.03."""
_SAME = 1e-9
_ITS = "its aggregation"
"""Begins each reason that other halves would have as well."""

Found = tuple[pb.Interval | None, str]
"""An interval and "", or None and the reason."""


@dataclass(frozen=True, slots=True)
class Part:
    """A metric of a task in one repeat.

    Attributes:
        word: The task, as users write it.
        name: The metric.
        repeat: The repeat.
        task: The task's scoring half.
        values: The metric's values in the order of the documents, as they were before any aggregation.
        units: What each value belongs to: its document, or what the task's `cluster_key` names.
        found: The aggregation of all values.
        changes: Whether an aggregation changes the values that it gets.
        drew: Whether their aggregation drew random numbers.
    """

    word: str
    name: str
    repeat: int
    task: Scored
    values: list[Any]
    units: list[Hashable]
    found: Any
    changes: bool
    drew: bool = False

    @property
    def value(self) -> float:
        """The aggregation of all values, which is a number."""
        return float(self.found)

    def again(self, rows: Sequence[int]) -> float | None:
        """Returns the aggregation of some of the values, None where it is not a number."""
        some = [self.values[row] for row in rows]
        return number_of(_aggregated(self, copy.deepcopy(some) if self.changes else some))


def part(task: Scored, about: tuple[str, str, int], values: Mapping[int, Any]) -> Part:
    """Aggregates the values of a metric, by document in their order; `about` is the task's word, metric and repeat."""
    word, name, repeat = about
    taken = list(values.values())
    kept = copy.deepcopy(taken)
    units: list[Hashable] = [number if (of := task.cluster(value)) is None else of for number, value in values.items()]
    each = Part(word, name, repeat, task, kept, units, None, False)
    with _seeded(each), watched() as drew:
        found = task.aggregate(name, taken)
        return replace(each, found=found, changes=repr(taken) != repr(kept), drew=drew())


def _seeded(each: Part) -> AbstractContextManager[None]:
    """Has the random numbers of an aggregation depend on the task, metric and repeat alone."""
    return seeded(f"{each.word} {each.name} {each.repeat}")


def _aggregated(each: Part, values: list[Any]) -> Any:
    with _seeded(each):
        return each.task.aggregate(each.name, values)


def of_repeats(repeats: Sequence[Part], level: float) -> Found:
    """Returns the interval of a task's metric, the mean over its repeats."""
    scores = [scores_of(each) for each in repeats]
    known = [found for found in scores if found is not None]
    if len(known) < len(scores):
        return of_halves([repeats], lambda values: math.fsum(values[0]) / len(values[0]), level)
    numbers, units = np.concatenate(known), [unit for each in repeats for unit in each.units]
    if not repeats[0].task.is_mean(repeats[0].name) and np.ptp(numbers) < _SAME:
        return None, "all samples have the same value, which does not show of how many of them it is the mean"
    clusters = _numbered(units)
    scale = 100.0 if bool(((numbers == 0) | (numbers == 100)).all()) and numbers.any() else 1.0
    own = None if len(set(units)) == len(units) else clusters
    found = of_mean(numbers / scale, own, level, bounds(numbers / scale))
    if found is None:
        return None, "fewer than two samples" if len(set(units)) < 2 else "all samples have the same value"
    return pb.Interval(low=found.low * scale, high=found.high * scale, level=level, method=found.method), ""


def scores_of(each: Part) -> Floats | None:
    """Returns the scores whose mean the metric is: its values, or the aggregation of each by itself; None without."""
    numbers = [number_of(value) for value in each.values]
    if None not in numbers and each.task.is_mean(each.name):
        return np.array(numbers, np.float64)
    count = len(each.values)
    half = count // 2
    try:
        with unanswered() as asked:  # a judge is for all items together
            both = [_mean_of(each, [range(half), range(half, count)])] if half else []
            if asked() or not both or both[0] is None:
                return None
            found = _mean_of(each, [[row] for row in range(count)])
            return None if asked() else found
    except Exception:  # an aggregation need not take some of its values alone
        return None


def _mean_of(each: Part, pieces: Sequence[Sequence[int]]) -> Floats | None:
    """Returns the aggregation of pieces of the values, if the aggregation of all is their weighted mean."""
    found = [each.again(piece) for piece in pieces]
    known = [number for number in found if number is not None]
    if len(known) < len(found):
        return None
    numbers = np.array(known, np.float64)
    mean = float(np.average(numbers, weights=[len(piece) for piece in pieces]))
    return numbers if abs(mean - each.value) <= _SAME * max(1.0, abs(mean)) else None


Combine = Callable[[list[list[float]]], float | None]
"""Returns a metric of the values of its parts: of each stratum those of its repeats."""


def of_halves(strata: Sequence[Sequence[Part]], combine: Combine, level: float) -> Found:
    """Returns the interval of a metric by random halves of each stratum's samples.

    Percentiles, of few samples those at which an interval by Student's t ends (Hesterberg, American Statistician 69
    (2015), 371-386). The seed is fixed and the order that of the documents: the same items have the same interval.

    Args:
        strata: Of each task its repeats, which have the same documents.
        combine: Makes a value of what the parts' aggregations of a half are.
        level: Coverage.

    Returns:
        None and the reason where an aggregation cannot be repeated: it asks a judge, starts programs, takes too long,
        fails on halves, or gives them other values on average.
    """
    if any(each.task.starts_programs for stratum in strata for each in stratum):
        return None, f"{_ITS} starts programs, which takes too long to repeat"
    found, reason = _of_units(strata, [_numbered(stratum[0].units) for stratum in strata], combine, level)
    if found is not None or reason.startswith(_ITS):
        return found, reason
    wider = [_by_field(stratum[0]) for stratum in strata]
    again = _of_units(strata, wider, combine, level)[0] if all(map(len, wider)) else None
    return (again, "") if again else (None, reason)


def _of_units(strata: Sequence[Sequence[Part]], units: Sequence[Ints], combine: Combine, level: float) -> Found:
    counts = [int(numbers.max()) + 1 for numbers in units]
    if min(counts) < 2:
        return None, f"fewer than two samples in {strata[counts.index(min(counts))][0].word}"
    draws, why = [], ""
    started, asks = _processor_time(), False
    with unanswered() as asked:  # a judge is for all items together
        for number, rows in enumerate(_halves(units, counts)):
            try:
                value = combine([[_number(each, own) for each in stratum]
                                 for stratum, own in zip(strata, rows, strict=True)])  # fmt: skip
            except (Exception, SystemExit) as error:
                value, why = None, f", {type(error).__name__} for example"
            if asks := asked():
                break
            draws.append(math.nan if value is None else value)
            if draws.count(math.nan) > _MOST_UNDEFINED * DRAWS:
                return None, f"undefined for more than {_MOST_UNDEFINED:.0%} of random halves of the samples{why}"
            if number == 0:
                started = _processor_time()  # the first one may load what it needs
            if number == _TIMED and (_processor_time() - started) / _TIMED * DRAWS > SECONDS:
                return None, f"{_ITS} takes too long to repeat {DRAWS:,} times"
    if asks or len(draws) < DRAWS:
        return None, f"{_ITS} asks a judge about all samples together"
    whole = combine([[each.value for each in stratum] for stratum in strata])
    return _percentiles(np.array(draws), whole, sum(counts) - len(counts), level)


def _number(each: Part, rows: Sequence[int]) -> float:
    number = each.again(rows)
    if number is None:
        raise ValueError("not a number")
    return number


def _percentiles(draws: Floats, whole: float | None, freedom: int, level: float) -> Found:
    """Returns the percentiles of draws, unless they lie around another value than that of all samples."""
    known = draws[np.isfinite(draws)]
    spread = float(known.std())
    if whole is None or abs(float(known.mean()) - whole) > _MOST_BIAS * spread + _SAME * max(1.0, abs(whole)):
        return None, "random halves of the samples have other values on average: it depends on their number"
    tail = NormalDist().cdf(-t_quantile(level, freedom))
    low, high = (round(float(end), 10) + 0.0 for end in np.quantile(known, (tail, 1 - tail)))
    if low == high:
        return None, "random halves of the samples have the same value"
    return pb.Interval(low=low, high=high, level=level, method=f"{DRAWS:,} random halves of the samples"), ""


def _halves(units: Sequence[Ints], counts: Sequence[int]) -> Iterator[list[list[int]]]:
    """Yields of each stratum the rows of a random half of its units; of an odd number one more in every other draw."""
    random = np.random.default_rng(0)
    for draw in range(DRAWS):
        rows = []
        for numbers, count in zip(units, counts, strict=True):
            inside = np.zeros(count, np.bool_)
            inside[random.permutation(count)[: (count + draw % 2) // 2]] = True
            rows.append(np.flatnonzero(inside[numbers]).tolist())
        yield rows


def _numbered(units: Sequence[Hashable]) -> Ints:
    """Returns a number for each unit, in the order in which they first occur."""
    places = {unit: number for number, unit in enumerate(dict.fromkeys(units))}
    return np.array([places[unit] for unit in units], np.int64)


def _by_field(each: Part) -> Ints:
    """Returns the units by the field of the values that tells most of them apart, of those that samples share.

    An aggregation may take samples of one question together, as MME's does, which two halves of it are none for.
    """
    if not all(isinstance(value, Mapping) for value in each.values):
        return np.zeros(0, np.int64)
    best: list[Hashable] = []
    for name in each.values[0]:
        found = [value.get(name) for value in each.values]
        if all(isinstance(value, (str, int)) for value in found):
            shared = Counter(found)
            if min(shared.values()) > 1 and len(shared) > max(1, len(set(best))):
                best = found
    return _numbered(best)


def _processor_time() -> float:
    return math.fsum(os.times()[:4])
