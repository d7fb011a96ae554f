"""The band that cut answers leave open: the mean of the others, and both ends of the mean without a limit."""

from __future__ import annotations

import pytest
from helpers.scorer_asking import measure, passed, spec, summarize

from lyncean.scorer.v1 import scorer_pb2 as pb


def items(*, top: float = 1.0) -> list[pb.ScoreRequest]:
    """Returns ten items: four cut, one of them right; one failed; half of the others right."""
    scored = [
        passed(f"t/{n}", "scored", top * (n < 5), cut=n in (4, 5, 6, 7), labels={"half": "ab"[n % 2]}) for n in range(9)
    ]
    return [*scored, passed("t/9", "failed", labels={"half": "b"})]


def test_the_band_is_of_all_items_and_the_whole_of_those_that_are_not_cut() -> None:
    result = measure(items(), "accuracy")
    assert (result.value, result.cut.whole, result.cut.denominator) == (0.5, 4 / 6, 6)
    assert (result.cut.low, result.cut.high) == (0.4, 0.8)
    percent = measure(items(), "mean", unit="percent")
    assert (percent.cut.whole, percent.cut.low, percent.cut.high) == pytest.approx((400 / 6, 40.0, 80.0))


def test_slices_and_conditions_have_separate_bands() -> None:
    overall, even, odd = summarize(items(), spec("m", "accuracy", ["half"])).metrics
    assert [result.cut.denominator for result in (overall, even, odd)] == [6, 3, 3]
    assert (even.cut.low, even.cut.high, odd.cut.low, odd.cut.high) == (0.4, 0.8, 0.4, 0.8)
    (cut,) = summarize([passed("t/1", "scored", 1.0, cut=True)], spec("m", "accuracy", where={"half": []})).metrics
    assert (cut.cut.HasField("whole"), cut.cut.low, cut.cut.high) == (False, 0.0, 1.0)


def test_other_metrics_and_complete_answers_have_no_band() -> None:
    for metric in ("rate", "group_all", "consistency"):
        params = {"outcome": "scored"} if metric == "rate" else {}
        assert not measure(items(), metric, **params).HasField("cut"), metric
    assert not measure(items(top=2.0), "mean").HasField("cut")
    assert not measure([passed("t/1", "scored", 1.0)], "accuracy").HasField("cut")


def test_the_order_of_items_leaves_no_trace() -> None:
    assert measure(items(), "accuracy") == measure(items()[::-1], "accuracy")
