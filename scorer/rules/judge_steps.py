"""judge_steps: a judge grades the steps that led to an answer as right, redundant or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.evidence import EvidenceRule, Shown, no_evidence, steps_of
from scorer.judges.base import Judge, JudgePrompt, graded
from scorer.judges.prompts import steps as prompts
from scorer.rule import scored, unparsed

MOST = 64
"""Most steps of one prompt."""


MOST_KINDS = 16


def _kinds(request: pb.ScoreRequest) -> dict[str, str]:
    param = request.params.fields.get("kinds")
    if param is None:
        return {}
    pairs = [value.string_value.partition(":") for value in param.list_value.values]
    kinds = {name.strip(): meaning.strip() for name, _, meaning in pairs}
    if not 2 <= len(pairs) <= MOST_KINDS or len(kinds) < len(pairs) or not all(map(all, kinds.items())):
        raise RequestError(
            f'judge_steps has params.kinds: a list of 2 to {MOST_KINDS} different kinds, each "NAME: MEANING"',
            "invalid_param",
        )
    return kinds


def _steps(request: pb.ScoreRequest, shown: Shown) -> list[str]:
    """Returns the steps that the answer marks, else those of the evidence."""
    mark = request.params.fields["mark"].string_value if "mark" in request.params.fields else ""
    marked = request.text.split(mark)[1:] if mark else []
    return [step.strip() for step in marked if step.strip()] or steps_of(request.evidence, shown)


async def _read(request: pb.ScoreRequest, judge: Judge) -> pb.Verdict:
    evidence, kinds = request.evidence, _kinds(request)
    if not evidence.messages or not evidence.steps:
        return no_evidence()
    shown = Shown()
    question, steps = shown.text(evidence.messages), _steps(request, shown)
    if not steps:
        return unparsed("no_steps", "the model gave neither reasoning nor text")
    if len(steps) > MOST:
        return no_evidence(f"the answer has {len(steps):,} steps, a judge is asked about {MOST} at most")
    kinds_of_steps = tuple(kinds) or prompts.LABELS
    prompt = JudgePrompt(
        name=prompts.KINDS_NAME if kinds else prompts.NAME,
        system=prompts.KINDS_SYSTEM if kinds else prompts.SYSTEM,
        user=prompts.question(question, request.targets, steps, kinds),
        schema=prompts.schema(len(steps), kinds_of_steps),
        images=tuple(shown.images),
    )

    def verdict(reply: Mapping[str, Any]) -> pb.Verdict:
        labels = [reply[f"step_{number + 1}"] for number in range(len(steps))]
        counts = Counter(labels)
        shares = {label: counts[label] / len(labels) for label in kinds_of_steps}
        return scored(" ".join(labels), shares[kinds_of_steps[0]], scores=shares)

    return await graded(judge, prompt, verdict)


RULE = EvidenceRule(
    name="judge_steps",
    description=(
        "Asks the judge of each step that led to an answer whether it is right, redundant or wrong; the judge sees the "
        "question, the images, and what came of each tool call. Steps are the calls of a trajectory, or the paragraphs "
        "of the reasoning where there was one call. The score is the share of right steps; all three shares are parts. "
        "With kinds, the steps are sorted by these instead, and the score is the share of the first."
    ),
    read=_read,
    params={
        "kinds": f'Kinds of steps, each "NAME: MEANING": a list of 2 to {MOST_KINDS}.',
        "mark": "Words before each step in the text of an answer that marks its steps; without them as above.",
    },
    depends=(prompts.NAME, prompts.SYSTEM, prompts.KINDS_NAME, prompts.KINDS_SYSTEM),
    needs=("messages", "input_images", "reasoning", "steps"),
)
