"""Of an answer that the output limit cut, only a value that it calls its answer is read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from helpers.corpus import CORPUS, cases, verdict_of

SHAPES = ["circle", "square", "triangle", "star"]
CASES = [case for path in sorted(CORPUS.glob("*.jsonl")) for case in cases(path) if len(case["text"]) > 60]


def read(text: str, options: list[str] = SHAPES, rule: str = "choice", **more: Any) -> str:
    case = {"case": "", "rule": rule, "text": text, "options": options, "params": {}, "expected": "unparsed", **more}
    verdict = verdict_of(case)
    return verdict.extracted if verdict.outcome == "scored" else verdict.outcome


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("**Answer: B**\n\nExplanation: The first row shows a circle, a square and a triangle. The second row", "B"),
        ("The answer is B. The first row has a circle, and option A would repeat it, while option C", "B"),
        ("\\boxed{D}\n\nTo see why, compare option A, which has", "D"),
        ("答案是B。因为图中的形状有四条边，而选项A是", "B"),
        ('{"answer": "C", "reasoning": "Option A shows a circle and option B', "C"),
        ("C\n\nIn row 1 we see a circle", "C"),
        ("B. squ", "B"),
        ("(C)", "C"),
        ("The third row lacks a square. So the answer is **B**", "B"),
        ("The third row lacks a square. So it must be", "unparsed"),
        ("So it's the square", "unparsed"),
        ("I think it's B. But wait, let me check the column. The first column has", "unparsed"),
        ("The answer might be C. Let me verify that with the second row: the shapes", "unparsed"),
        ("The correct answer is A", "unparsed"),
        ("The answer is \\boxed{B", "unparsed"),
        ("A. circle, which is round\nB. squ", "unparsed"),
        ("Option A: it is round and appears in row 1. Wrong.\nOption B: it", "unparsed"),
        ('{"reasoning": "Option B shows a square", "answer": "', "unparsed"),
        ("I'm sorry, I can't help with that. If you", "refused"),
    ],
)
def test_a_finished_statement_alone_is_read(text: str, label: str) -> None:
    assert read(text, cut=True) == label


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("There are 1", "unparsed"),
        ("12", "unparsed"),
        ("So there are 4 panels in the first row. The second row has", "unparsed"),
        ("There are 7 birds in total. Four of them sit on", "7"),
    ],
)
def test_a_number_is_read_only_as_a_total(text: str, number: str) -> None:
    assert read(text, [], "count", cut=True) == number


def test_nothing_else_of_the_corpus_is_read_once_it_is_cut() -> None:
    rng = random.Random(1)
    wrong, alike = [], 0
    for case in CASES:
        text = case["text"][: int(len(case["text"]) * rng.uniform(0.3, 0.95))]
        verdict = verdict_of({**case, "text": text, "cut": True})
        if verdict.outcome == "scored":
            alike += verdict.extracted == case["expected"]
            wrong += [(case["case"], text)] if verdict.extracted != case["expected"] else []
    # Most of them do state another answer, which their continuation retracts.
    assert len(wrong) <= 0.015 * len(CASES), "\n".join(map(str, wrong))
    assert alike > 100


def test_a_complete_answer_is_hardly_ever_read_otherwise_if_it_is_marked_as_cut() -> None:
    other = []
    complete_answers = [case for case in CASES if not case.get("cut")][::5]
    for case in complete_answers:
        complete, cut = (verdict_of({**case, "cut": cut}) for cut in (False, True))
        other += [case["case"]] if cut.outcome == "scored" and cut.extracted != complete.extracted else []
    assert len(other) <= 0.01 * len(complete_answers), other
