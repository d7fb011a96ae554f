"""Metrics of VLMEvalKit's data sets, by the `evaluate` of its package over the rows that the rule `vlmevalkit` kept."""

from __future__ import annotations

from functools import lru_cache

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean_harnesses.library.values import decode
from lyncean_harnesses.library.vlmevalkit import Evaluated, evaluate, unclosed
from lyncean_harnesses.scoring.task_metric import RECORD, UNDEFINED
from lyncean_harnesses.scoring.vlmevalkit_rule import PLACE, ROW
from scorer import check_code, foreign_allowed
from scorer.metrics import Metric, Params, Plan, Table


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    foreign_allowed()
    dataset, name = params.word("dataset", ""), params.word("metric", "")

    def compute(table: Table) -> pb.MetricResult:
        result = pb.MetricResult(denominator=len(table))
        values, answered = [], 0
        for repeat in sorted(set(table.repeat.tolist())):
            selected = table.take(table.repeat == repeat)
            records = tuple(str(word) for word in selected.word(RECORD) if word)
            answered += len(records)
            values.append(_evaluated(dataset, records).metrics.get(name) if records else None)
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            result.details[UNDEFINED] = f"VLMEvalKit's evaluation has no {name}"
            return result
        result.value_answered, result.denominator_answered = float(np.mean(known)), answered
        if answered < len(table):
            missing = len(table) - answered
            result.details[UNDEFINED] = f"{missing} of {len(table)} items have no answer; the value is over the others"
        else:
            result.value = result.value_answered
            result.details["no_interval"] = "VLMEvalKit's evaluation of all answers takes too long to repeat"
        return result

    return Plan(compute, columns=frozenset({RECORD}), check=_check)


def _check() -> None:
    """Raises RequestError if its package's code may not run in this scorer."""
    check_code("VLMEvalKit", unclosed())


@lru_cache(maxsize=4)
def _evaluated(dataset: str, records: tuple[str, ...]) -> Evaluated:
    """Returns its package's evaluation of the rows in the table's order; cached for several metrics."""
    _check()
    rows = sorted((decode(record) for record in records), key=lambda record: int(record[PLACE]))
    return evaluate(dataset, [row[ROW] for row in rows])


METRIC = Metric(
    name="vlmevalkit",
    description="A number of VLMEvalKit's own evaluation of all answers, without a judge (exact_matching), by its "
    "package, which must be installed beside the scorer; of items with the rule vlmevalkit. Failed items leave it "
    "undefined; value_answered is over the others.",
    plan=plan,
    params={"dataset": "the data set, as VLMEvalKit names it", "metric": "the number, as its evaluation names it"},
    unit="",
)
