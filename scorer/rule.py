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
        description: One paragraph: the answers that it reads and the fields that it needs.
        parity: Whether it reproduces a reference, bugs included.
        params: Its parameters and their meanings; others are refused.
        version: Raised whenever an old request may get a new verdict.
        reads: The kinds of answer it accepts, of "text", "images" and "scores"; a request with
            another kind is refused before the rule sees it.
        depends: Texts outside its source code that its verdicts depend on (patterns, prompts);
            the hash that ListRules reports covers them.
        reads_empty: Whether it also reads answers that are empty without their reasoning; otherwise they are
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
    """A rule that needs nothing but the request.

    Attributes:
        read: Scores one request, and depends on it alone; the service sets Verdict.key.
            `text` arrives with reasoning tags already removed (see scorer.reading.reasoning) unless
            `parity` is set: a parity rule gets the raw text.
        cell: Whether every answer is read in a fresh closed process, without files, network and secrets.
    """

    read: Callable[[pb.ScoreRequest], pb.Verdict]
    cell: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRule(BaseRule):
    """A rule that asks a judge.

    The service awaits many calls at once (bounded for each stream), and scores items of plain rules meanwhile. `read`
    is not called for an empty answer unless `reads_empty` is set. It turns a judge's failure into the outcome
    `unjudged`; a `RequestError` means a defect of the request.

    Attributes:
        read: Scores one request with the scorer's judge, a `scorer.judges.Judge`.
        required: Whether a scorer without a judge refuses its requests; otherwise `read` gets None there.
    """

    read: Callable[[pb.ScoreRequest, Any], Awaitable[pb.Verdict]]
    required: bool = True


AnyRule = Rule | JudgedRule
"""The type of `RULE`, which every rule module exports."""


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
    """Returns the verdict of an answer without an extractable part: wrong, and counted in a separate rate."""
    return pb.Verdict(outcome=Outcome.UNPARSED, score=0.0, reason=reason, detail=detail, details=details)


def refused(reason: str = Reason.DECLINED, detail: str = "", *, details: str = "") -> pb.Verdict:
    """Returns the verdict of an answer in which the model declines: wrong, and counted in a separate rate."""
    return pb.Verdict(outcome=Outcome.REFUSED, score=0.0, reason=reason, detail=detail, details=details)
