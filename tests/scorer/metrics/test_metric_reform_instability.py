"""ReForm-Eval's instability over a real stream of items."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer
from scorer.rules.reform_choice import RULE


def instability(tests):
    """Returns the metric of tests: (group, text, options)."""
    summarizer = Summarizer([pb.MetricSpec(name="I", metric="reform_instability")], metrics())
    for number, (group, text, options) in enumerate(tests):
        request = pb.ScoreRequest(key=f"t/{number}", group=group, text=text, options=options, targets=["0"])
        summarizer.add(request, RULE.read(request))
    return summarizer.finish().metrics[0]


def test_texts_not_marks_are_compared():
    result = instability([("g", "(A)", ["x", "y"]), ("g", "(b)", ["y", "x"]), ("g", "(2)", ["z", "x"])])
    assert result.value == 0
    assert result.denominator == 1


def test_unreadable_answers_differ_by_their_words():
    result = instability([("g", "dunno", ["x"]), ("g", "what", ["x"]), ("g", "dunno", ["x"]), ("g", "(Z)", ["x"])])
    assert result.value == pytest.approx(1.5 * math.log(2))


def test_a_group_of_one_is_stable_and_counts():
    tests = [("a", "(A)", ["x", "y"]), ("b", "(A)", ["x", "y"]), ("b", "(B)", ["x", "y"])]
    assert instability(tests).value == pytest.approx(math.log(2) / 2)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["(A)", "(B)", "x", "", "Yes", "yes "])), min_size=1))
def test_entropy_of_the_shares(tests):
    groups = {}
    for group, text in tests:
        answer = {"(A)": "yes", "(B)": "no"}.get(text, text)
        groups.setdefault(group, []).append(answer)
    wanted = 0.0
    for answers in groups.values():
        shares = [answers.count(answer) / len(answers) for answer in set(answers)]
        wanted -= sum(share * math.log(share) for share in shares) / len(groups)
    result = instability([(group, text, ["yes", "no"]) for group, text in tests])
    assert result.value == pytest.approx(wanted, abs=1e-12)
