"""Regex first, judge second: an answer in which a choice rule found nothing is read again by a judge.

The judge only says which option the answer commits to, without knowing which is right; the
rule itself then scores that label as if the model had said nothing else. The verdict is marked
`judge_reread`, so that metrics can be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

from lyncean.outcomes import Outcome
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.judges.base import Judge, JudgePrompt, graded
from scorer.judges.prompts import choice_reread
from scorer.rule import Rule

RULES = frozenset({"choice", "choice_number", "two_way"})
"""Rules whose answer is one of a closed set."""

DEFAULT_COUNT = 4


def rereadable(rule: Rule, verdict: pb.Verdict) -> bool:
    """Whether a verdict is one that a judge may read again: there was an answer, and nothing was found."""
    return rule.name in RULES and verdict.outcome == Outcome.UNPARSED and verdict.reason != "empty_answer"


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
        rule: The rule that found nothing.
        request: What it was given.
        first: Its verdict; stands where the judge finds nothing either.
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
        if reply["choice"] == choice_reread.NONE:
            return first
        plain = pb.ScoreRequest()
        plain.CopyFrom(request)
        plain.text = reply["choice"]
        second = rule.read(plain)
        second.ClearField("span")
        second.reason = "judge_reread"
        return second

    return await graded(judge, prompt, verdict)
