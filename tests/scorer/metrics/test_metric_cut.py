"""What cut answers leave open of a metric: the mean of the others, and the ends of what it would be without a limit."""

from __future__ import annotations

import pytest
from helpers.scorer_asking import measure, passed, spec, summarize

from lyncean.scorer.v1 import scorer_pb2 as pb


def items(*, top: float = 1.0) -> list[pb.ScoreRequest]:
    """Ten items: four cut, of which one is right all the same; one failed; half of the others right."""
    made = [
        passed(f"t/{n}", "scored", top * (n < 5), cut=n in (4, 5, 6, 7), labels={"half": "ab"[n % 2]}) for n in range(9)
    ]
    return [*made, passed("t/9", "failed", labels={"half": "b"})]


def test_the_band_is_of_all_items_and_the_whole_of_those_that_are_not_cut() -> None:
    found = measure(items(), "accuracy")
    assert (found.value, found.cut.whole, found.cut.denominator) == (0.5, 4 / 6, 6)
    assert (found.cut.low, found.cut.high) == (0.4, 0.8)
    percent = measure(items(), "mean", unit="percent")
    assert (percent.cut.whole, percent.cut.low, percent.cut.high) == pytest.approx((400 / 6, 40.0, 80.0))


def test_slices_and_conditions_have_their_own() -> None:
    whole, even, odd = summarize(items(), spec("m", "accuracy", ["half"])).metrics
    assert [each.cut.denominator for each in (whole, even, odd)] == [6, 3, 3]
    assert (even.cut.low, even.cut.high, odd.cut.low, odd.cut.high) == (0.4, 0.8, 0.4, 0.8)
    (cut,) = summarize([passed("t/1", "scored", 1.0, cut=True)], spec("m", "accuracy", where={"half": []})).metrics
    assert (cut.cut.HasField("whole"), cut.cut.low, cut.cut.high) == (False, 0.0, 1.0)


def test_other_metrics_and_whole_answers_say_nothing() -> None:
    for metric in ("rate", "group_all", "consistency"):
        params = {"outcome": "scored"} if metric == "rate" else {}
        assert not measure(items(), metric, **params).HasField("cut"), metric
    assert not measure(items(top=2.0), "mean").HasField("cut")
    assert not measure([passed("t/1", "scored", 1.0)], "accuracy").HasField("cut")


def test_the_order_of_items_leaves_no_trace() -> None:
    assert measure(items(), "accuracy") == measure(items()[::-1], "accuracy")
