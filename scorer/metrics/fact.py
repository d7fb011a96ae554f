"""The mean of a number that is known of the items beside their scores, such as the calls of a trajectory."""

from __future__ import annotations

from lyncean.arrays import Floats, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics import intervals as stats
from scorer.errors import RequestError
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import mean_result
from scorer.metrics.mean import CLUSTER
from scorer.metrics.table import Table


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    name = params.word("fact", "")
    if not name:
        raise RequestError("parameter 'fact' names no fact: give fact=calls, for example", "invalid_param")
    cluster = params.flag("cluster", True)
    level = params.level

    def compute(table: Table) -> pb.MetricResult:
        column: Floats = table.facts[name]
        known = ~np.isnan(column)
        values, clusters = column[known], table.group[known] if cluster else None
        result = mean_result(values, clusters, level, stats.UNBOUNDED, column[known & table.answered])
        if missing := len(column) - len(values):
            result.details["items_without_fact"] = missing
        return result

    return Plan(compute, facts=(name,))


METRIC = Metric(
    name="fact",
    description="Mean of a number known of the items beside their scores (ScoreRequest.facts), over the items that "
    "have it; value_answered is the same over scored and unparsed items.",
    plan=plan,
    params={"fact": 'the fact\'s name, for example "calls", "output_tokens" or "iou"', "cluster": CLUSTER},
    unit="",
)
