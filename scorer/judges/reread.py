"""Rule first, judge second: a judge reads answers in which a choice rule found nothing, or nothing plain, or all.

The judge only says which option the answer commits to, without knowing which is right. Where the rule found nothing,
it scores that label as if the model had said nothing else, and the verdict is marked `judge_reread`. Where the rule
read an option, its reading stands if the judge reads the same; otherwise the answer is unparsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary import reasons
from lyncean.vocabulary.outcomes import Outcome
from lyncean.vocabulary.reasons import Reason
from scorer.judges.base import Judge, JudgePrompt, graded
from scorer.judges.prompts import choice_reread
from scorer.rule import Rule, unparsed

RULES = frozenset({"choice", "choice_number", "two_way"})
"""Rules whose answer is one of a closed set."""

DEFAULT_COUNT = 4

NOTHING, UNPARSED, DOUBTFUL, ALL = READS = "none", "unparsed", "doubtful", "all"
"""What a judge reads again; each includes what stands before it."""


def rereadable(rule: Rule, verdict: pb.Verdict, reads: str) -> bool:
    """Whether a judge that reads so much reads the answer of a verdict again."""
    if rule.name not in RULES or reads == NOTHING:
        return False
    if verdict.outcome == Outcome.UNPARSED:
        return verdict.reason != Reason.EMPTY_ANSWER
    read = reads == ALL or (reads == DOUBTFUL and verdict.reason in reasons.DOUBTFUL)
    return read and verdict.outcome == Outcome.SCORED


def labels(request: pb.ScoreRequest) -> tuple[str, ...]:
    """Returns what the options of a request are called, in the terms of its rule."""
    if request.rule == "two_way":
        return tuple(request.options)
    if "labels" in request.params.fields:
        return tuple(value.string_value for value in request.params.fields["labels"].list_value.values)
    default = int(request.params.fields["count"].number_value) if "count" in request.params.fields else DEFAULT_COUNT
    count = len(request.options) or default
    return tuple(ascii_uppercase[:count]) if request.rule == "choice" else tuple(str(n) for n in range(1, count + 1))


async def reread(rule: Rule, request: pb.ScoreRequest, first: pb.Verdict, judge: Judge) -> pb.Verdict:
    """Returns the verdict of what the judge read.

    Args:
        rule: The rule that read the answer first.
        request: What it was given.
        first: Its verdict; stands where the judge reads the same.
        judge: Who is asked.
    """
    names = labels(request)
    prompt = JudgePrompt(
        name=choice_reread.NAME,
        system=choice_reread.SYSTEM,
        user=choice_reread.question(names, request.options, request.text),
        schema=choice_reread.schema(names),
    )

    def verdict(reply: Mapping[str, Any]) -> pb.Verdict:
        nothing = first.outcome == Outcome.UNPARSED
        if reply["choice"] == choice_reread.NONE:
            return first if nothing else differ(first, "none")
        plain = pb.ScoreRequest()
        plain.CopyFrom(request)
        plain.text, plain.cut = reply["choice"], False
        second = rule.read(plain)
        if not nothing:
            return first if second.extracted == first.extracted else differ(first, repr(second.extracted))
        second.ClearField("span")
        second.reason = "judge_reread"
        return second

    return await graded(judge, prompt, verdict)


def differ(first: pb.Verdict, other: str) -> pb.Verdict:
    """Returns the verdict on an answer that the rule and the judge read differently: neither is taken."""
    detail = f"the rule reads {first.extracted!r} ({first.reason}), the judge {other}"
    return unparsed(Reason.READERS_DIFFER, detail)
