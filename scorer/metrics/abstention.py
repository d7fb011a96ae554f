"""Abstention: the share of items without a committed answer, and the risk of the others."""

from __future__ import annotations

from lyncean.arrays import Bools, Floats, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics.intervals import SHARE
from lyncean.vocabulary.outcomes import Outcome
from lyncean.vocabulary.reasons import Reason
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import mean_result
from scorer.metrics.mean import CLUSTER
from scorer.metrics.requirements import require_shares
from scorer.metrics.table import CODES, Table

_OF = ("abstention", "coverage", "risk")


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    of = params.word("of", _OF[0], _OF)
    cluster = params.flag("cluster", True)
    level = params.level

    def one(table: Table, measure: str) -> pb.MetricResult:
        silent, heard = _silent(table), _heard(table)
        if measure == "risk":
            table, heard = table.take(~silent), heard[~silent]
        values = _values(table, silent, measure)
        return mean_result(values, table.group if cluster else None, level, SHARE, values[heard])

    def compute(table: Table) -> pb.MetricResult:
        require_shares(table)
        result = one(table, of)
        for other in _OF:
            if other != of:
                result.details[other] = _numbers(one(table, other))
        return result

    return Plan(compute, columns=frozenset({"reason"}), of_scores=True)


def _silent(table: Table) -> Bools:
    """Returns the rows in which the model does not commit: it states that it has no answer, or declines."""
    abstained: Bools = np.array([reason == Reason.ABSTAINED for reason in table.word("reason")], bool)
    silent: Bools = abstained & (table.outcome == CODES[Outcome.UNPARSED]) | (table.outcome == CODES[Outcome.REFUSED])
    return silent


def _heard(table: Table) -> Bools:
    """Returns the rows with a reply of the model, readable or not."""
    heard: Bools = table.answered | (table.outcome == CODES[Outcome.REFUSED])
    return heard


def _values(table: Table, silent: Bools, measure: str) -> Floats:
    """Returns the values of the mean; for the risk, `table` lacks the silent rows."""
    if measure == "risk":
        wrong: Floats = 1.0 - table.values()
        return wrong
    return (silent if measure == "abstention" else ~silent).astype(np.float64)


def _numbers(result: pb.MetricResult) -> dict[str, float]:
    """Returns value and interval in the form of details, in fractions."""
    numbers = {"value": result.value} if result.HasField("value") else {}
    if result.HasField("interval"):
        numbers |= {"low": result.interval.low, "high": result.interval.high}
    return numbers


METRIC = Metric(
    name="abstention",
    description="Share of planned items in which the model does not commit to an answer: it says that it has none "
    "(unparsed, reason abstained), or declines (refused). With params.of 'coverage' the share of all others; with "
    "'risk' one minus the mean score of these others, which is the share of wrong ones. value_answered is the same "
    "without items that nobody answered. details has the other two in fractions.",
    plan=plan,
    params={"of": "abstention (default), coverage or risk", "cluster": CLUSTER},
)
