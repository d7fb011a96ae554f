"""The published corpus: hand-written answers, and the reading of a careful person."""

from __future__ import annotations

import pytest
from helpers.corpus import CASES, named, request_of, verdict_of


def test_corpus_is_large_and_covers_the_rules() -> None:
    assert set(CASES) == {"choice", "choice_number", "count", "two_way"}
    assert sum(map(len, CASES.values())) >= 800


@pytest.mark.parametrize("rule", sorted(CASES))
def test_reads_the_corpus_as_a_careful_person_would(rule: str) -> None:
    disagreements = []
    for case in CASES[rule]:
        verdict = verdict_of(case)
        reading = verdict.extracted if verdict.outcome == "scored" else verdict.outcome
        if reading != case["expected"]:
            disagreements.append((case["case"], case["text"], case["expected"], reading, verdict.reason))
    assert not disagreements, "\n".join(map(str, disagreements))


@pytest.mark.parametrize("rule", sorted(CASES))
def test_span_names_a_place_in_the_answer(rule: str) -> None:
    for case in CASES[rule]:
        with named(case):
            verdict = verdict_of(case)
            if verdict.outcome != "scored":
                assert not verdict.HasField("span")
                assert verdict.score == 0
                continue
            assert 0 <= verdict.span.start < verdict.span.end <= len(request_of(case).text)
            assert verdict.score == 1
            assert verdict.reason
