"""Helpers for tests of a rule: verdicts as the service gives them, and properties of every careful rule."""

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
    found = Scorer(registry).begin(request)
    assert isinstance(found, pb.Verdict)
    return found


def check_cases(rule: Rule, cases: Iterable[tuple[str, str]], **fields: Any) -> None:
    """Asserts what a rule extracts from answers.

    `cases` are pairs of an answer and its extracted text, "" for one that must be unparsed or refused; `fields` are
    further fields of ScoreRequest, the same for all.
    """
    for text, wanted in cases:
        found = verdict(rule, text, **fields)
        assert found.extracted == wanted, f"{text!r}: extracted {found.extracted!r}, wanted {wanted!r}"
        assert (found.outcome == Outcome.SCORED) == bool(wanted), f"{text!r}: {found.outcome}"


def check_invariants(rule: Rule, texts: Iterable[str], labels: Iterable[str] = (), **fields: Any) -> None:
    """Asserts what holds for every careful rule, on each of the answers given.

    Nothing but the labels is ever extracted; the same request gets the same verdict; blanks
    around the answer, markdown emphasis of the whole and a closing sentence without a label
    change nothing that is extracted; the span lies inside the text; an outcome other than
    scored says why; and one of a million characters comes through.
    """
    allowed, texts = set(labels), list(texts)
    for text in texts:
        found = verdict(rule, text, **fields)
        _check_form(found, text, allowed)
        assert found == verdict(rule, text, **fields), f"{text!r}: two verdicts of one request"
        for changed in (f"  {text}\n\n", f"**{text}**", f"{text}\n\nThank you for the question!"):
            other = verdict(rule, changed, **fields)
            assert other.extracted == found.extracted, f"{changed!r}: {other.extracted!r}, without: {found.extracted!r}"
    piece = " word ".join([*texts, ""])
    long = piece * (LONG // len(piece) + 1)
    _check_form(verdict(rule, long, **fields), long, allowed)


def _check_form(found: pb.Verdict, text: str, allowed: set[str]) -> None:
    assert found.outcome in (Outcome.SCORED, Outcome.UNPARSED, Outcome.REFUSED), found.outcome
    if found.outcome == Outcome.SCORED:
        assert not allowed or found.extracted in allowed, f"{found.extracted!r} is no label"
        assert found.HasField("score")
    else:
        assert not found.extracted
        assert found.score == 0.0
        assert found.reason, f"{found.outcome} without a reason"
    if found.HasField("span"):
        assert 0 <= found.span.start <= found.span.end <= len(text), "the span is outside of the text"
