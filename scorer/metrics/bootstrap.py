"""A confidence interval for any metric that is a function of a table, by resampling samples or groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from lyncean.arrays import Floats, Ints, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.table import Table, numbered

DRAWS = 1_000
"""Default number of resamples."""

UNITS = ("samples", "groups")

_MOST_UNDEFINED = 0.05

_BLOCK = 1 << 20
"""Random numbers drawn at a time, which bounds memory."""


def interval(
    table: Table, compute: Callable[[Table], pb.MetricResult], unit: str, draws: int, level: float
) -> tuple[pb.Interval | None, str]:
    """Returns the percentile bootstrap interval of a metric (Efron 1979).

    The seed is fixed and a table's order depends on its keys alone, so that equal items have equal intervals.

    Args:
        table: The items.
        compute: The metric; may raise or leave `value` unset for a resample.
        unit: The unit that is drawn with replacement: "samples" (an item with its repeats) or "groups".
        draws: Number of resamples, each a call of the metric.
        level: Coverage.

    Returns:
        The interval and "", or None and the reason: fewer than two units, or a metric that is undefined for more than
        a twentieth of the resamples.
    """
    count = len(np.unique(table.group if unit == "groups" else table.sample))
    if count < 2:
        return None, f"fewer than two {unit}"
    values, undefined, why = [], 0, ""
    for resample in _resamples(table, unit, draws):
        value = math.nan
        try:
            result = compute(resample)
            value = result.value if result.HasField("value") else math.nan
        except (Exception, SystemExit) as error:
            why = f", {type(error).__name__} for example"
        if math.isfinite(value):
            values.append(value)
            continue
        undefined += 1
        if undefined > _MOST_UNDEFINED * draws:
            return None, f"undefined for more than {_MOST_UNDEFINED:.0%} of the resamples of {unit}{why}"
    return _percentiles(values, level, f"bootstrap over {unit}, {draws} draws"), ""


def of_strata(strata: Sequence[Floats], weights: Sequence[float], draws: int, level: float) -> pb.Interval:
    """Returns the percentile bootstrap interval of a weighted mean of means; strata are resampled separately.

    Args:
        strata: The scores of each stratum.
        weights: The weight of each stratum's mean.
        draws: Number of resamples.
        level: Coverage.
    """
    random = np.random.default_rng(0)
    total = np.zeros(draws)
    for scores, weight in zip(strata, weights, strict=True):
        block = max(1, _BLOCK // len(scores))
        for start in range(0, draws, block):
            size = min(block, draws - start)
            drawn = random.integers(0, len(scores), (size, len(scores)))
            total[start : start + size] += weight * scores[drawn].mean(axis=1)
    return _percentiles(total, level, f"bootstrap over the samples of each task, {draws} draws")


def _percentiles(values: Floats | Sequence[float], level: float, method: str) -> pb.Interval:
    # Rounded, since sums differ in the last digit between processors, and results must not.
    low, high = (round(float(end), 10) + 0.0 for end in np.quantile(values, ((1 - level) / 2, (1 + level) / 2)))
    return pb.Interval(low=low, high=high, level=level, method=method)


def _resamples(table: Table, unit: str, draws: int) -> Iterator[Table]:
    # Rows sorted by unit, with the start and size of every unit: a resample is then index arithmetic, without a loop
    # over the drawn units.
    numbers = numbered(table.group if unit == "groups" else table.sample)
    count = int(numbers.max()) + 1
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    sizes = np.bincount(numbers, minlength=count)
    starts = np.cumsum(sizes) - sizes
    # A group of one sample is that sample: its copies are as independent as those of a sample without a group.
    single = np.bincount(table.group)[table.group] == np.bincount(table.sample)[table.sample]
    random = np.random.default_rng(0)
    for _ in range(draws):
        drawn = random.integers(0, count, count)
        lengths = sizes[drawn]
        copy = np.repeat(np.arange(count), lengths)
        within = np.arange(len(copy)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = order[starts[drawn][copy] + within]
        sample = _fresh(copy, table.sample[rows])
        group = _fresh(np.where(single[rows], copy, 0) if unit == "samples" else copy, table.group[rows])
        yield table.take(rows, group=group, sample=sample)


def _fresh(copy: Ints, numbers: Ints) -> Ints:
    """Numbers the distinct pairs of a copy and an old number, so that copies of one unit count as different units."""
    fresh: Ints = numbered(copy.astype(np.int64) * (int(numbers.max()) + 1) + numbers)
    return fresh
