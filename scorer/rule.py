"""The types of a rule: a function from an answer and its context to a verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome
from lyncean.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRule:
    """The declaration of every rule.

    Attributes:
        name: Value of ScoreRequest.rule.
        description: One paragraph: what it reads and what it needs.
        parity: Whether it reproduces a reference, bugs included.
        params: The parameters it knows, each with its meaning; others are refused.
        version: Raised whenever the same request may get another verdict.
        reads: The kinds of answer it takes, of "text", "images" and "scores"; a request with
            another kind is refused before the rule sees it.
        depends: Texts beside the source code that its verdicts depend on (patterns, prompts);
            they go into the hash that ListRules reports.
        reads_empty: Whether it reads answers that are empty without their reasoning, too; otherwise they are
            unparsed with reason `empty_answer`.
    """

    name: str
    description: str
    parity: bool = False
    params: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    reads: tuple[str, ...] = ("text",)
    depends: tuple[str, ...] = ()
    reads_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(BaseRule):
    """One way to read an answer.

    Attributes:
        read: Scores one request; the service sets Verdict.key. Depends on the request alone.
            `text` arrives with reasoning tags already removed (see scorer.reading.reasoning) unless
            `parity` is set: a parity rule gets the raw text.
        cell: Whether each answer is read in a fresh closed process, without files, network and secrets.
    """

    read: Callable[[pb.ScoreRequest], pb.Verdict]
    cell: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRule(BaseRule):
    """A rule that asks a judge.

    The service awaits many of them at once (bounded for each stream), while items of plain
    rules go on being answered. `read` is never called for an empty answer, unless `reads_empty`
    is set. It turns a judge's failure into the outcome `unjudged` itself; a `RequestError` means a
    defect of the request.

    Attributes:
        read: Scores one request with the judge that the scorer was started with. What a
            judge offers is the business of `scorer.judges`; the service only passes it on.
        required: Whether a scorer without a judge refuses its requests; otherwise `read` gets None there.
    """

    read: Callable[[pb.ScoreRequest, Any], Awaitable[pb.Verdict]]
    required: bool = True


AnyRule = Rule | JudgedRule
"""What a rule module exports as `RULE`."""


def scored(
    extracted: str,
    score: float,
    *,
    span: tuple[int, int] | None = None,
    reason: str = "",
    scores: Mapping[str, float] | None = None,
    details: str = "",
) -> pb.Verdict:
    """Returns the verdict of an answer that was extracted and compared."""
    verdict = pb.Verdict(outcome=Outcome.SCORED, extracted=extracted, score=score, reason=reason, scores=scores or {})
    verdict.details = details
    if span:
        verdict.span.start, verdict.span.end = span
    return verdict


def unparsed(reason: str, detail: str = "", *, details: str = "") -> pb.Verdict:
    """Returns the verdict of an answer in which nothing can be extracted: wrong, own rate."""
    return pb.Verdict(outcome=Outcome.UNPARSED, score=0.0, reason=reason, detail=detail, details=details)


def refused(reason: str = Reason.DECLINED, detail: str = "", *, details: str = "") -> pb.Verdict:
    """Returns the verdict of an answer in which the model declines: wrong, own rate."""
    return pb.Verdict(outcome=Outcome.REFUSED, score=0.0, reason=reason, detail=detail, details=details)
