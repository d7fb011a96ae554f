"""Reads an answer by one of our rules and keeps its full text for VLMEvalKit's own evaluation of all answers."""

from __future__ import annotations

from typing import Any

from google.protobuf.json_format import MessageToDict

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary import Outcome
from lyncean_harnesses.library.values import encode
from lyncean_harnesses.library.vlmevalkit import PREDICTION
from scorer import RequestError, Rule, unparsed

PLACE = "place"
"""Key of the kept record: the row's number in the table."""

ROW = "row"


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    from scorer import rule_registry

    params: dict[str, Any] = MessageToDict(request.params)
    rule = rule_registry().get(str(params.get("rule", "")))
    if not isinstance(rule, Rule):
        raise RequestError(f"parameter 'rule' is {rule.name!r}, which asks a judge", "invalid_param")
    inner = pb.ScoreRequest()
    inner.CopyFrom(request)
    inner.ClearField("params")
    verdict = rule.read(inner) if request.text.strip() else unparsed("empty_answer")
    kept = pb.Verdict()
    kept.CopyFrom(verdict)
    kept.details = encode({PLACE: int(params[PLACE]), ROW: {**params[ROW], PREDICTION: request.text}})
    if kept.outcome == Outcome.UNPARSED:
        kept.extracted = ""
    return kept


RULE = Rule(
    name="vlmevalkit",
    description="Reads an answer by the rule that it is given, for people and comparisons, and keeps the row and the "
    "answer for the metric vlmevalkit, which is VLMEvalKit's own.",
    read=_read,
    reads_empty=True,
    params={
        "rule": "the rule that reads the answer",
        ROW: "the row, as VLMEvalKit's table has it, without images",
        PLACE: "its number in the table",
    },
)
