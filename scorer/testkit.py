"""Helpers for tests of a rule: verdicts as the service returns them, and properties of every careful rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome
from scorer.registry import Registry
from scorer.rule import AnyRule, Rule
from scorer.scoring import Scorer

LONG = 1_000_000
"""Characters of the long answer that every rule must get through."""


def verdict(rule: Rule, text: str, **fields: Any) -> pb.Verdict:
    """Returns the verdict of one answer as in the service; `fields` are targets, options, params, ... of ScoreRequest.

    Raises:
        RequestError: If the request cannot be scored.
    """
    params: Mapping[str, Any] = fields.pop("params", {})
    request = pb.ScoreRequest(key=fields.pop("key", "test"), rule=rule.name, text=text, **fields)
    if params:
        request.params.update(params)
    registry: Registry[AnyRule] = Registry("rule", {}, (Rule,), [rule])
    result = Scorer(registry).begin(request)
    assert isinstance(result, pb.Verdict)
    return result


def check_cases(rule: Rule, cases: Iterable[tuple[str, str]], **fields: Any) -> None:
    """Asserts the text that a rule extracts from each answer.

    `cases` are pairs of an answer and its extracted text, "" for one that must be unparsed or refused; `fields` are
    further fields of ScoreRequest, the same for all.
    """
    for text, wanted in cases:
        result = verdict(rule, text, **fields)
        assert result.extracted == wanted, f"{text!r}: extracted {result.extracted!r}, wanted {wanted!r}"
        assert (result.outcome == Outcome.SCORED) == bool(wanted), f"{text!r}: {result.outcome}"


def check_invariants(rule: Rule, texts: Iterable[str], labels: Iterable[str] = (), **fields: Any) -> None:
    """Asserts the properties of every careful rule on each of the answers.

    The rule extracts labels only; equal requests get equal verdicts; blanks around the answer, markdown emphasis of
    all of it and a closing sentence without a label leave the extracted text alone; the span lies inside the text; an
    outcome other than scored has a reason; and an answer of a million characters gets a verdict.
    """
    allowed, texts = set(labels), list(texts)
    for text in texts:
        result = verdict(rule, text, **fields)
        _check_form(result, text, allowed)
        assert result == verdict(rule, text, **fields), f"{text!r}: two verdicts of one request"
        for changed in (f"  {text}\n\n", f"**{text}**", f"{text}\n\nThank you for the question!"):
            other = verdict(rule, changed, **fields)
            assert other.extracted == result.extracted, (
                f"{changed!r}: {other.extracted!r}, without: {result.extracted!r}"
            )
    piece = " word ".join([*texts, ""])
    long = piece * (LONG // len(piece) + 1)
    _check_form(verdict(rule, long, **fields), long, allowed)


def _check_form(result: pb.Verdict, text: str, allowed: set[str]) -> None:
    assert result.outcome in (Outcome.SCORED, Outcome.UNPARSED, Outcome.REFUSED), result.outcome
    if result.outcome == Outcome.SCORED:
        assert not allowed or result.extracted in allowed, f"{result.extracted!r} is not a label"
        assert result.HasField("score")
    else:
        assert not result.extracted
        assert result.score == 0.0
        assert result.reason, f"{result.outcome} without a reason"
    if result.HasField("span"):
        assert 0 <= result.span.start <= result.span.end <= len(text), "the span is outside of the text"
