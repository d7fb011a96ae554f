"""The mean of a fact: a number of each item besides its score, such as the calls of a trajectory."""

from __future__ import annotations

import math

from lyncean.arrays import Bools, Floats, Ints, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics import intervals as stats
from scorer.errors import RequestError
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import gathered
from scorer.metrics.mean import CLUSTER
from scorer.metrics.table import Table

_AT_LEAST_0 = (0.0, math.inf)
"""Bounds of the mean of counts and overlaps: Student's t would go below 0."""


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    name = params.word("fact", "")
    if not name:
        raise RequestError("parameter 'fact' names no fact: give fact=calls, for example", "invalid_param")
    cluster, weight = params.flag("cluster", True), params.word("weight", "")
    level = params.level

    def compute(table: Table) -> pb.MetricResult:
        column: Floats = table.facts[name]
        weights = table.facts[weight] if weight else np.ones(len(column))
        return _weighted(column, weights, table.group if cluster else None, level, table.answered)

    return Plan(compute, facts=(name, weight) if weight else (name,))


def _weighted(values: Floats, weights: Floats, groups: Ints | None, level: float, answered: Bools) -> pb.MetricResult:
    """Returns the weighted mean; the denominator is the sum of the weights.

    Numbers that happen to be all 0 or 1 are counts as well: Wilson's interval would bound the mean of a count by 1.
    """
    known = ~np.isnan(values) & (weights > 0)
    values, weights, answered = values[known], weights[known], answered[known]
    numbers = np.arange(len(values)) if groups is None else groups[known]
    sums, sizes = (gathered(column, numbers)[0] for column in (values * weights, weights))
    total = math.fsum(sizes)
    result = pb.MetricResult(denominator=round(total))
    if total:
        result.value = math.fsum(sums) / total
        within = _AT_LEAST_0 if values.min() >= 0 else stats.UNBOUNDED
        interval = stats.mean_interval(sums, sizes, binary=False, level=level, within=within)
        if interval:
            low, high = (round(end, 10) + 0.0 for end in (interval.low, interval.high))
            result.interval.CopyFrom(pb.Interval(low=low, high=high, level=level, method=interval.method))
        else:
            result.details["no_interval"] = "all samples have the same value, or are in one group"
    if total and answered.all():
        result.value_answered, result.denominator_answered = result.value, result.denominator
    elif of_answered := math.fsum(weights[answered]):
        result.value_answered = math.fsum((values * weights)[answered]) / of_answered
        result.denominator_answered = round(of_answered)
    if missing := len(known) - len(values):
        result.details["items_without_fact"] = missing
    return result


METRIC = Metric(
    name="fact",
    description="Mean of a number known of the items beside their scores (ScoreRequest.facts), over the items that "
    "have it; value_answered is the same over scored and unparsed items.",
    plan=plan,
    params={
        "fact": 'the fact\'s name, for example "calls", "output_tokens" or "iou"',
        "weight": "a fact that says how often an item counts; default once",
        "cluster": CLUSTER,
    },
    unit="",
)
