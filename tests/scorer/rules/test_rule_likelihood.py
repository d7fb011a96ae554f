"""The likelihood rule: choosing, reducing, comparing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rules.likelihood import RULE


def request(
    logprobs: list[float],
    targets: list[str],
    options: list[str] | None = None,
    tokens: list[int] | None = None,
    **params: object,
) -> pb.ScoreRequest:
    item = pb.ScoreRequest(key="k", rule="likelihood", targets=targets)
    item.options.extend(options or [f"option {n}" for n in range(len(logprobs))])
    for n, logprob in enumerate(logprobs):
        item.scores.add(logprob=logprob, token_count=tokens[n] if tokens else 1)
    if params:
        item.params.update(params)
    return item


@pytest.mark.parametrize(
    ("targets", "options", "extracted", "score"),
    [
        (["B"], ["cat", "dog"], "B", 1.0),
        (["A"], ["cat", "dog"], "B", 0.0),
        (["dog"], ["cat", "dog"], "dog", 1.0),
        (["1"], ["cat", "dog"], "1", 1.0),
        (["1"], ["1", "2"], "2", 0.0),  # texts come before indices
        (["A"], ["B", "A"], "A", 1.0),  # texts come before letters
        (["cat", "dog"], ["cat", "dog"], "dog", 1.0),
        (["dog"], ["dog", "dog"], "dog", 1.0),
    ],
)
def test_targets_are_texts_else_letters_else_places(
    targets: list[str], options: list[str], extracted: str, score: float
) -> None:
    verdict = RULE.read(request([-2.0, -1.0], targets, options))
    assert (verdict.outcome, verdict.extracted, verdict.score) == ("scored", extracted, score)


def test_reductions_choose_differently() -> None:
    arguments = ([-3.0, -4.0, -4.5], ["A"], ["ab", "abc def", "a very long option"], [1, 4, 2])
    assert RULE.read(request(*arguments)).extracted == "A"
    assert RULE.read(request(*arguments, reduction="mean")).extracted == "B"
    assert RULE.read(request(*arguments, reduction="mean_bytes")).extracted == "C"


def test_bytes_are_utf8() -> None:
    verdict = RULE.read(request([-4.0, -3.0], ["A"], ["éééé", "abcd"], reduction="mean_bytes"))
    assert verdict.extracted == "A"


def test_parts_are_probability_and_margin() -> None:
    verdict = RULE.read(request([math.log(0.2), math.log(0.6), math.log(0.1)], ["B"]))
    assert verdict.scores["probability"] == pytest.approx(0.6 / 0.9)
    assert verdict.scores["margin"] == pytest.approx(math.log(3))


def test_a_tie_goes_to_the_first_and_says_so() -> None:
    verdict = RULE.read(request([-5.0, -1.0, -1.0], ["C"]))
    assert (verdict.extracted, verdict.reason, verdict.score) == ("B", "tie", 0.0)
    assert verdict.scores["margin"] == 0.0


def test_impossible_options_lose_and_impossible_alone_is_unparsed() -> None:
    verdict = RULE.read(request([-math.inf, -9.0], ["B"]))
    assert (verdict.score, verdict.scores["probability"]) == (1.0, 1.0)
    assert "margin" not in verdict.scores
    verdict = RULE.read(request([-math.inf, -math.inf], ["B"]))
    assert (verdict.outcome, verdict.reason, verdict.score) == ("unparsed", "all_impossible", 0.0)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_broken_numbers_are_never_an_answer(broken: float) -> None:
    verdict = RULE.read(request([broken, -1.0], ["A"]))
    assert (verdict.outcome, verdict.reason) == ("unparsed", "invalid_scores")


def test_no_tokens_cannot_be_divided_by() -> None:
    assert RULE.read(request([-1.0, -2.0], ["A"], tokens=[0, 1])).outcome == "scored"
    assert RULE.read(request([-1.0, -2.0], ["A"], tokens=[0, 1], reduction="mean")).reason == "invalid_scores"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (request([-1.0], ["A"], ["cat", "dog"]), "1 for 2"),
        (request([], ["A"], []), "0 for 0"),
        (request([-1.0, -2.0], []), "targets"),
        (request([-1.0, -2.0], ["C"]), "'C'"),
        (request([-1.0, -2.0], ["2"]), "'2'"),
        (request([-1.0, -2.0], ["A"], reduction="max"), "'max'"),
        (request([-1.0, -2.0], ["option 0", "B"]), "'option 0', 'B'"),
    ],
)
def test_defects_are_named(bad: pb.ScoreRequest, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        RULE.read(bad)


@given(st.lists(st.floats(-1e6, 0), min_size=1, max_size=30), st.randoms())
def test_permuting_options_permutes_the_choice(logprobs: list[float], random: object) -> None:
    options = [f"text {n}" for n in range(len(logprobs))]
    verdict = RULE.read(request(logprobs, options, options))
    order = list(range(len(logprobs)))
    random.shuffle(order)
    moved = RULE.read(request([logprobs[p] for p in order], options, [options[p] for p in order]))
    if not verdict.reason:
        assert moved.extracted == verdict.extracted
    assert moved.scores["probability"] == pytest.approx(verdict.scores["probability"])
    assert 0 < verdict.scores["probability"] <= 1
