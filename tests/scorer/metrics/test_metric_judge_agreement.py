"""The agreement of judges, even of two with the same name."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer


def agreement(panels: Sequence[Sequence[tuple[str, bool]]]) -> pb.MetricResult:
    """Returns the metric of panels: by item, the judges' names and decisions."""
    summarizer = Summarizer([pb.MetricSpec(name="alpha", metric="judge_agreement")], metrics())
    for number, panel in enumerate(panels):
        verdict = pb.Verdict(key=str(number), outcome="scored", score=1.0)
        for name, correct in panel:
            verdict.panel.add(model=name, words=json.dumps({"correct": correct, "explanation": name}))
        summarizer.add(pb.ScoreRequest(key=str(number)), verdict)
    (result,) = summarizer.finish().metrics
    return result


VOTES = ((True, True), (True, True), (False, False), (True, False))


@pytest.mark.parametrize("names", [("a", "b"), ("gpt", "gpt")])
def test_judges_of_one_name_are_two_voices(names: tuple[str, str]) -> None:
    result = agreement([list(zip(names, votes, strict=True)) for votes in VOTES])
    # By hand: observed disagreement 1/4, expected 2 * 5 * 3 / (8 * 7).
    assert result.value == pytest.approx(1 - (1 / 4) / (30 / 56))
    assert (result.denominator, result.details["unanimous"]) == (4, 3)


def test_a_voice_that_is_missing_is_none() -> None:
    result = agreement([[("gpt", True), ("gpt", True), ("llama", False)], [("gpt", False), ("llama", False)]])
    assert list(result.details["judges"]) == ["gpt", "gpt (2)", "llama"]
    # By hand: of 5 decisions 2 are yes; the first item disagrees in 4 of 6 ordered pairs, 2 each of weight 1/2.
    assert result.value == pytest.approx(1 - (4 / 2 / 5) / (2 * 2 * 3 / (5 * 4)))


@pytest.mark.parametrize("panels", [[[("gpt", True)], [("gpt", False)]], [[]], [[("a", True), ("a", True)]] * 3])
def test_where_no_two_voices_can_differ_there_is_no_value(panels: list[list[tuple[str, bool]]]) -> None:
    assert not agreement(panels).HasField("value")
