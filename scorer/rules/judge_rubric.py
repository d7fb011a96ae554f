"""judge_rubric: a judge grades an answer by criteria, and sees the question and its images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.evidence import EvidenceRule, Shown, no_evidence
from scorer.judges.base import Judge, JudgePrompt, graded
from scorer.judges.prompts import rubric
from scorer.rule import scored

MOST = 32
"""Most criteria of a request."""


def _criteria(request: pb.ScoreRequest) -> list[str]:
    param = request.params.fields.get("criteria")
    values = param.list_value.values if param else ()
    criteria = [value.string_value.strip() for value in values]
    if not 0 < len(criteria) <= MOST or not all(criteria):
        raise RequestError(f"judge_rubric needs params.criteria: a list of 1 to {MOST} sentences", "invalid_param")
    return criteria


def _graded_text(request: pb.ScoreRequest) -> str:
    """Returns the answer; with `params.reasoning`, the reasoning that the server returned comes first."""
    with_reasoning = "reasoning" in request.params.fields and request.params.fields["reasoning"].bool_value
    return "\n\n".join(filter(None, (request.evidence.reasoning if with_reasoning else "", request.text)))


async def _read(request: pb.ScoreRequest, judge: Judge) -> pb.Verdict:
    criteria = _criteria(request)
    if not request.evidence.messages:
        return no_evidence()
    shown = Shown()
    question = shown.text(request.evidence.messages)
    prompt = JudgePrompt(
        name=rubric.NAME,
        system=rubric.SYSTEM,
        user=rubric.question(question, request.targets, criteria, _graded_text(request)),
        schema=rubric.schema(len(criteria)),
        images=tuple(shown.images),
    )

    def verdict(reply: Mapping[str, Any]) -> pb.Verdict:
        met = {f"criterion_{number + 1}": float(reply[f"criterion_{number + 1}"]) for number in range(len(criteria))}
        count = int(sum(met.values()))
        return scored(f"{count} of {len(met)}", count / len(met), scores=met)

    return await graded(judge, prompt, verdict)


RULE = EvidenceRule(
    name="judge_rubric",
    description=(
        "Asks the judge which criteria an answer meets; the judge sees the question and its images. The score is the "
        "share of criteria that are met, each of which is a part of it. Targets are shown where there are some."
    ),
    read=_read,
    params={
        "criteria": "Sentences that are true of a good answer: a list of 1 to 32.",
        "reasoning": "Whether the judge reads the model's reasoning before the answer; default: false.",
    },
    depends=(rubric.NAME, rubric.SYSTEM),
    needs=("messages", "input_images", "reasoning"),
)
