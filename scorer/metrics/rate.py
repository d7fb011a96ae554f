"""The share of items with an outcome, or with a reason."""

from __future__ import annotations

from lyncean.arrays import Floats, Ints, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import ANSWERED, Outcome
from scorer.errors import RequestError
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import mean_result
from scorer.metrics.mean import CLUSTER
from scorer.metrics.table import CODES, Table


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    outcome = params.word("outcome", "", ("", *CODES))
    reason = params.word("reason", "")
    cluster = params.flag("cluster", True)
    level = params.level
    if not outcome and not reason:
        raise RequestError("metric 'rate' needs params.outcome or params.reason", "invalid_param")

    def items(table: Table) -> tuple[Floats, Ints | None]:
        hits = np.ones(len(table), bool)
        if outcome:
            hits &= table.outcome == CODES[outcome]
        if reason:
            hits &= np.array([word == reason for word in table.word("reason")], bool)
        return hits.astype(np.float64), table.group if cluster else None

    def compute(table: Table) -> pb.MetricResult:
        hits, clusters = items(table)
        answered = hits[table.answered] if not outcome or Outcome(outcome) in ANSWERED else None
        return mean_result(hits, clusters, level, answered=answered)

    return Plan(compute, columns=frozenset({"reason"} if reason else ()), items=items)


METRIC = Metric(
    name="rate",
    description="Share of planned items with an outcome (params.outcome), a reason (params.reason) or both; "
    "value_answered is the share of scored and unparsed items, where the outcome is one of these.",
    plan=plan,
    params={
        "outcome": " | ".join(CODES),
        "reason": "a value of Verdict.reason, for example no_choice",
        "cluster": CLUSTER,
    },
)
