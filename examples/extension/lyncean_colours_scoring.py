"""The rule and the metric of the extension, for the scorer."""

from __future__ import annotations

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer import Rule, scored, unparsed
from scorer.metrics import Metric, Params, Plan, Table


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    tokens = request.text.lower().split()
    if len(tokens) != 1:
        return unparsed("not_one_word")
    return scored(tokens[0], float(tokens[0] in request.targets))


RULE = Rule(name="same_colour", description="The answer is one word, the right colour's name.", read=_read)


def _plan(params: Params) -> Plan:
    def compute(table: Table) -> pb.MetricResult:
        values = table.values()
        return pb.MetricResult(value=float(values.sum() / len(values)), denominator=len(values))

    return Plan(compute, bootstrap="samples")


METRIC = Metric(name="share_of_colours", description="Share of the images whose colour was named.", plan=_plan)
