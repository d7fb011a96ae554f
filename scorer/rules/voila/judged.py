"""judge_voila: a judge grades VOILA's steps 1 to 3; see scorer.rules.voila.prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.judges.base import Judge, graded
from scorer.rule import JudgedRule
from scorer.rules.voila import properties
from scorer.rules.voila.prompts import prompt, verdict

AGREES = "agrees_with_rules"
"""Part of the score: 1 if voila_properties gives exactly the same grades."""


async def read(request: pb.ScoreRequest, judge: Judge) -> pb.Verdict:
    """Asks the judge about one step; raises RequestError if step or target is missing."""
    step = properties.step_of(request)

    def graded_twice(reply: Mapping[str, Any]) -> pb.Verdict:
        judged, plain = verdict(reply), properties.read(request)
        judged.scores[AGREES] = float(all(plain.scores[part] == grade for part, grade in judged.scores.items()))
        return judged

    return await graded(judge, prompt(step, request.targets[0], request.text), graded_twice)


RULE = JudgedRule(
    name="judge_voila",
    description=(
        "VOILA's steps by a judge, with wording of our own: number, subject type and action, each right or wrong, as "
        "parts of the score, which is as voila_properties makes it; the part agrees_with_rules says whether that rule "
        "gives the same grades. Needs the step's truth in the data's words as its one target. A reply that is not of "
        "the schema is unjudged."
    ),
    read=read,
    version=2,
    params={"step": "1, 2 or 3"},
)
