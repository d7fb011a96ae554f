"""judge_steps: the steps that led to an answer, each right, redundant or wrong, by a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.evidence import EvidenceRule, Shown, no_evidence, steps_of
from scorer.judges.base import Judge, JudgePrompt, graded
from scorer.judges.prompts import steps as prompts
from scorer.rule import scored, unparsed

MOST = 64
"""Steps that a judge is asked about."""


async def _read(request: pb.ScoreRequest, judge: Judge) -> pb.Verdict:
    evidence = request.evidence
    if not evidence.messages or not evidence.steps:
        return no_evidence()
    shown = Shown()
    asked, steps = shown.text(evidence.messages), steps_of(evidence, shown)
    if not steps:
        return unparsed("no_steps", "the model gave neither reasoning nor text")
    if len(steps) > MOST:
        return no_evidence(f"the answer has {len(steps):,} steps, a judge is asked about {MOST} at most")
    prompt = JudgePrompt(
        name=prompts.NAME,
        system=prompts.SYSTEM,
        user=prompts.question(asked, request.targets, steps),
        schema=prompts.schema(len(steps)),
        images=tuple(shown.images),
    )

    def verdict(reply: Mapping[str, Any]) -> pb.Verdict:
        labels = [reply[f"step_{number + 1}"] for number in range(len(steps))]
        counts = Counter(labels)
        shares = {label: counts[label] / len(labels) for label in prompts.LABELS}
        return scored(" ".join(labels), shares[prompts.RIGHT], scores=shares)

    return await graded(judge, prompt, verdict)


RULE = EvidenceRule(
    name="judge_steps",
    description=(
        "Asks the judge of each step that led to an answer whether it is right, redundant or wrong; the judge sees the "
        "question, the images, and what came of each tool call. Steps are the calls of a trajectory, or the paragraphs "
        "of the reasoning where there was one call. The score is the share of right steps; all three shares are parts."
    ),
    read=_read,
    depends=(prompts.NAME, prompts.SYSTEM),
    needs=("messages", "input_images", "reasoning", "steps"),
)
