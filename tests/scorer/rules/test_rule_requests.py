"""The requests that the reading rules refuse, and the reasons in their verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rules import rules


def read(rule: str, text: str, targets: list[str], options: list[str] | None = None, **params: Any) -> pb.Verdict:
    request = pb.ScoreRequest(key="k", rule=rule, text=text, targets=targets, options=options or [])
    request.params.update(params)
    return rules().get(rule).read(request)


def test_any_target_counts() -> None:
    assert read("choice", "B", ["A", "B"]).score == 1
    assert read("choice", "C", ["A", "B"]).score == 0
    assert read("choice", "The answer is b.", ["b"]).extracted == "B"
    assert read("choice", "B", ["cotton"], ["rubber", "cotton"]).score == 1
    assert read("choice_number", "choice 3", ["3"]).score == 1
    assert read("count", "five", ["05"]).score == 1
    assert read("two_way", "lower part", ["lower"], ["upper", "lower"]).score == 1


def test_reasons_say_how_an_answer_was_read() -> None:
    options = ["rubber", "cotton", "kevlar", "leather"]
    reasons = {
        "B": "bare",
        "\\boxed{B}": "boxed",
        "The answer is B.": "stated",
        "I'd go with B": "chosen",
        "So B.": "concluded",
        "A. No, B.": "corrected",
        "The glove is made of cotton.": "option_text",
        "A or B": "no_choice",
        "The answer is A or B": "conflict",
        "I cannot determine the answer.": "abstained",
        "The answer is A. Wait, no, that's wrong.": "retracted",
        "I'm sorry, I can't assist with that.": "declined",
        " ": "empty",
    }
    assert {text: read("choice", text, ["B"], options).reason for text in reasons} == reasons


@pytest.mark.parametrize(
    ("rule", "targets", "options", "params", "names"),
    [
        ("choice", [], [], {}, "target"),
        ("choice", ["E"], [], {}, "'E'"),
        ("choice", ["A"], ["one"], {}, "labels"),
        ("choice", ["A"], ["x", "y"], {"labels": ["A", "B", "C"]}, "labels"),
        ("choice", ["A"], [], {"labels": ["A", "A"]}, "different"),
        ("choice", ["A"], [], {"count": 2.5}, "whole"),
        ("choice_number", ["5"], [], {}, "'5'"),
        ("choice_number", ["1"], [], {"count": 12}, "12"),
        ("count", ["many"], [], {}, "'many'"),
        ("count", [], [], {}, "target"),
        ("two_way", ["yes"], ["yes"], {}, "two"),
        ("two_way", ["maybe"], ["yes", "no"], {}, "maybe"),
        ("two_way", ["yes"], ["yes", "no"], {"labels": ["A"]}, "two labels"),
    ],
)
def test_defects_of_a_benchmark_are_errors(
    rule: str, targets: list[str], options: list[str], params: dict[str, Any], names: str
) -> None:
    with pytest.raises(RequestError, match=names):
        read(rule, "A", targets, options, **params)
