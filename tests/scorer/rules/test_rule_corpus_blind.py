"""Answers written and labelled by an author who had not seen the rules.

A case marked `open` has an answer that the rules do not read yet: it must stay without a reading,
since a wrong one is worse than none, until it is read as expected. `misread` is the known wrong
reading of a case.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from helpers.corpus import CORPUS, OUTCOMES, cases, verdict_of

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.reading import reasoning
from scorer.rules import rules

CASES = [case for path in sorted(CORPUS.glob("blind*.jsonl")) for case in cases(path)]
OTHERS = cases(CORPUS.parent / "corpus_other_rules.jsonl")
PROPERTIES = ("number", "subject_type", "action")


def read_of(rule: str, verdict: pb.Verdict) -> str:
    """Returns the form that the corpus compares: the label, the outcome, right or wrong, or grades by property."""
    if verdict.outcome != "scored":
        return verdict.outcome
    if rule in ("contains_word", "key_information"):
        return "right" if verdict.score == 1 else "wrong"
    if rule == "voila_properties":
        return ",".join(f"{round(verdict.scores[name], 3):g}" for name in PROPERTIES)
    return verdict.extracted


@pytest.mark.parametrize("rule", ["choice", "choice_number", "count", "two_way"])
def test_no_answer_is_read_that_a_careful_person_would_not_read(rule: str) -> None:
    counts: Counter[str] = Counter()
    disagreements = []
    for case in (case for case in CASES if case["rule"] == rule):
        reading = read_of(rule, verdict_of(case))
        counts["all"] += 1
        counts["agreed"] += reading == case["expected"]
        known = (case.get("open") and reading in OUTCOMES) or reading == case.get("misread")
        if reading != case["expected"] and not known:
            disagreements.append((case["case"], case["text"], case["expected"], reading))
    assert not disagreements, "\n".join(map(str, disagreements))
    assert counts["agreed"] >= 0.95 * counts["all"] > 150


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: f"{case['case']} {case['rule']}: {case['text'][:40]!r}")
def test_other_rules_grade_as_a_careful_person_would(case: dict[str, Any]) -> None:
    rule = case["rule"]
    text = reasoning.split(case["text"]).answer
    request = pb.ScoreRequest(key="k", rule=rule, text=text, targets=case["targets"])
    request.params.update(case["params"])
    assert read_of(rule, rules().get(rule).read(request)) == case["expected"]
