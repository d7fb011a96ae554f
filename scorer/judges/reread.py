"""A second reading by a judge, of answers that a choice rule left unparsed, or read with doubt, or of all.

The judge only names the option that the answer commits to, and does not know the right one. If the rule left the
answer unparsed, it now scores the judge's label as if that were the answer, and the verdict is marked `judge_reread`.
If the rule read an option, its verdict stands if the judge reads the same; otherwise the answer is unparsed.
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
"""Rules whose answers are labels of a closed set."""

DEFAULT_COUNT = 4

NOTHING, UNPARSED, DOUBTFUL, ALL = READS = "none", "unparsed", "doubtful", "all"
"""Values of `--judge-reads`; each includes the answers of the ones before it."""


def rereadable(rule: Rule, verdict: pb.Verdict, reads: str) -> bool:
    """Returns true if the judge reads the answer of a verdict again; `reads` is one of `READS`."""
    if rule.name not in RULES or reads == NOTHING:
        return False
    if verdict.outcome == Outcome.UNPARSED:
        return verdict.reason != Reason.EMPTY_ANSWER
    selected = reads == ALL or (reads == DOUBTFUL and verdict.reason in reasons.DOUBTFUL)
    return selected and verdict.outcome == Outcome.SCORED


def labels(request: pb.ScoreRequest) -> tuple[str, ...]:
    """Returns the labels of a request's options, as its rule extracts them."""
    if request.rule == "two_way":
        return tuple(request.options)
    if "labels" in request.params.fields:
        return tuple(value.string_value for value in request.params.fields["labels"].list_value.values)
    default = int(request.params.fields["count"].number_value) if "count" in request.params.fields else DEFAULT_COUNT
    count = len(request.options) or default
    return tuple(ascii_uppercase[:count]) if request.rule == "choice" else tuple(str(n) for n in range(1, count + 1))


async def reread(rule: Rule, request: pb.ScoreRequest, first: pb.Verdict, judge: Judge) -> pb.Verdict:
    """Returns the verdict of an answer after the judge has read it.

    Args:
        rule: The rule that read the answer first.
        request: The request that it scored.
        first: Its verdict; stands if the judge reads the same.
        judge: The judge.
    """
    names = labels(request)
    prompt = JudgePrompt(
        name=choice_reread.NAME,
        system=choice_reread.SYSTEM,
        user=choice_reread.question(names, request.options, request.text),
        schema=choice_reread.schema(names),
    )

    def verdict(reply: Mapping[str, Any]) -> pb.Verdict:
        unread = first.outcome == Outcome.UNPARSED
        if reply["choice"] == choice_reread.NONE:
            return first if unread else differ(first, "none")
        relabelled = pb.ScoreRequest()
        relabelled.CopyFrom(request)
        relabelled.text, relabelled.cut = reply["choice"], False
        second = rule.read(relabelled)
        if not unread:
            return first if second.extracted == first.extracted else differ(first, repr(second.extracted))
        second.ClearField("span")
        second.reason = "judge_reread"
        return second

    return await graded(judge, prompt, verdict)


def differ(first: pb.Verdict, other: str) -> pb.Verdict:
    """Returns the verdict on an answer that the rule and the judge read differently: unparsed."""
    detail = f"the rule reads {first.extracted!r} ({first.reason}), the judge {other}"
    return unparsed(Reason.READERS_DIFFER, detail)
