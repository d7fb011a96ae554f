"""judge_answer: a judge decides whether an open answer means the same as a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.judges.base import Judge, JudgePrompt, graded
from scorer.judges.prompts import open_answer
from scorer.reading.refusals import only_declines
from scorer.rule import JudgedRule, refused, scored


async def _read(request: pb.ScoreRequest, judge: Judge) -> pb.Verdict:
    if not request.targets:
        raise RequestError("judge_answer needs targets: the right answers in words")
    if only_declines(request.text):
        return refused()
    question = request.params.fields.get("question")
    prompt = JudgePrompt(
        name=open_answer.NAME,
        system=open_answer.SYSTEM,
        user=open_answer.question(question.string_value if question else "", request.targets, request.text),
        schema=open_answer.SCHEMA,
    )

    def verdict(reply: Mapping[str, Any]) -> pb.Verdict:
        return scored("correct" if reply["correct"] else "incorrect", float(reply["correct"]))

    return await graded(judge, prompt, verdict)


RULE = JudgedRule(
    name="judge_answer",
    description=(
        "Asks the judge whether an open answer means the same as one of the targets. Needs a judge. Extracted is"
        " 'correct' or 'incorrect'."
    ),
    read=_read,
    version=2,
    params={"question": "What the model was asked, shown to the judge; optional."},
    depends=(open_answer.NAME, open_answer.SYSTEM),
)
