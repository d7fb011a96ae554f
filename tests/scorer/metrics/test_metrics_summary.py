"""Properties of every summary, with any metrics."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest
from helpers.scorer_asking import passed, spec, summarize
from hypothesis import given, settings, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome
from scorer.errors import RequestError
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer
from scorer.metrics.table import numbered

ALL = [
    spec("acc", "accuracy", ["a"], ["a", "b"]),
    spec("facets", "accuracy", ["a"], facets=["a", "round"]),
    spec("independent", "accuracy", cluster=False),
    spec("percent", "accuracy", ["b"], unit="percent"),
    spec("only", "accuracy", ["b"], where={"a": ["x"]}),
    spec("part", "mean", part="p"),
    spec("all", "group_all", ["a"]),
    spec("refused", "rate", outcome="refused"),
    spec("bias", "choice_bias"),
    spec("same", "consistency"),
    spec("pass", "pass_at", k=2),
    spec("entropy", "instability"),
    spec("ece", "calibration", part="p"),
    spec("rounds", "multi_round", label="round"),
]


@st.composite
def an_item(draw: st.DrawFn) -> pb.ScoreRequest:
    outcome = draw(st.sampled_from([str(outcome) for outcome in Outcome]))
    score = draw(st.sampled_from([0.0, 1.0, 0.5])) if outcome in ("scored", "unparsed", "refused") else None
    repeat = draw(st.sampled_from(["", "#1", "#2"]))
    item = passed(
        f"t/{draw(st.integers(0, 30))}{repeat}",
        outcome,
        score,
        targets=[draw(st.sampled_from("AB"))],
        options=["one", "two"],
        group=draw(st.sampled_from(["", "g", "h"])),
        labels=draw(st.dictionaries(st.sampled_from("ab"), st.sampled_from(["x", "y", ""]))),
    )
    item.labels["round"] = str(draw(st.integers(1, 3)))
    if outcome == "scored":
        item.verdict.extracted = draw(st.sampled_from("AB"))
        item.verdict.scores["p"] = draw(st.floats(0.01, 1.0))
    return item


def unique(items: list[pb.ScoreRequest]) -> list[pb.ScoreRequest]:
    return list({item.key: item for item in items}.values())


@pytest.mark.full
@settings(max_examples=25)
@given(st.lists(an_item(), max_size=25).map(unique), st.randoms(use_true_random=False))
def test_order_leaves_no_trace(items: list[pb.ScoreRequest], order: random.Random) -> None:
    first = summarize(items, *ALL).SerializeToString(deterministic=True)
    shuffled = list(items)
    order.shuffle(shuffled)
    assert summarize(shuffled, *ALL).SerializeToString(deterministic=True) == first


@pytest.mark.full
@settings(max_examples=25)
@given(st.lists(an_item(), max_size=25).map(unique))
def test_nothing_is_lost_or_counted_twice(items: list[pb.ScoreRequest]) -> None:
    summary = summarize([*items, *items], *ALL)
    assert summary.counts.planned == len(items)
    for counts in [summary.counts, *(result.counts for result in summary.metrics)]:
        assert counts.planned == sum(getattr(counts, outcome) for outcome in Outcome)
    for outcome in Outcome:
        assert getattr(summary.counts, outcome) == sum(item.verdict.outcome == outcome for item in items)
    overall = next(result for result in summary.metrics if result.name == "acc")
    sliced = [result for result in summary.metrics if result.name == "acc" and list(result.labels) == ["a"]]
    assert sum(result.counts.planned for result in sliced) == sum("a" in item.labels for item in items)
    assert overall.denominator == len(items)


@pytest.mark.full
@settings(max_examples=25)
@given(st.lists(an_item(), min_size=1, max_size=25).map(unique))
def test_values_lie_in_their_intervals_and_answered_is_never_below_planned(items: list[pb.ScoreRequest]) -> None:
    for result in summarize(items, *ALL).metrics:
        if result.metric == "accuracy":
            if result.HasField("interval"):
                assert result.interval.low - 1e-9 <= result.value <= result.interval.high + 1e-9
            if result.denominator_answered == result.denominator:
                assert result.value == result.value_answered
            assert result.denominator_answered <= result.denominator


@pytest.mark.full
@settings(max_examples=15)
@given(st.lists(an_item(), min_size=1, max_size=30).map(unique))
def test_one_more_failure_lowers_planned_and_leaves_answered(items: list[pb.ScoreRequest]) -> None:
    before = summarize(items, ALL[0]).metrics[0]
    after = summarize([*items, passed("t/more", "failed")], ALL[0]).metrics[0]
    assert after.value <= before.value
    assert after.value_answered == before.value_answered
    assert after.denominator == before.denominator + 1


def test_slices_are_sorted_and_leave_out_items_without_the_label() -> None:
    items = [
        passed("1", "scored", 1.0, labels={"a": "y", "b": "p"}),
        passed("2", "scored", 0.0, labels={"a": "x", "b": "q"}),
        passed("3", "scored", 1.0, labels={"a": ""}),
        passed("4", "scored", 1.0, labels={"b": "p"}),
    ]
    results = summarize(items, spec("acc", "accuracy", ["a"], ["a", "b"])).metrics
    assert [(dict(result.labels), result.value) for result in results] == [
        ({}, 0.75),
        ({"a": ""}, 1.0),
        ({"a": "x"}, 0.0),
        ({"a": "y"}, 1.0),
        ({"a": "x", "b": "q"}, 0.0),
        ({"a": "y", "b": "p"}, 1.0),
    ]


def test_where_filters_before_slices() -> None:
    items = [passed(str(n), "scored", float(n % 2), labels={"a": "xyz"[n % 3], "b": "pq"[n % 2]}) for n in range(12)]
    results = summarize(items, spec("acc", "accuracy", ["b"], where={"a": ["x", "y"], "b": []})).metrics
    assert [(dict(result.labels), result.denominator) for result in results] == [
        ({}, 8),
        ({"b": "p"}, 4),
        ({"b": "q"}, 4),
    ]


def test_nothing_passes_where() -> None:
    result = summarize([passed("1", "scored", 1.0)], spec("acc", "accuracy", where={"a": ["x"]})).metrics[0]
    assert not result.HasField("value")
    assert not result.HasField("interval")
    assert result.denominator == result.counts.planned == 0
    assert result.unit == "fraction"


def test_many_slices_of_many_items() -> None:
    items = [passed(str(n), "scored", float(n % 2), labels={"a": str(n % 500)}) for n in range(5000)]
    results = summarize(items, spec("acc", "accuracy", ["a"])).metrics
    assert len(results) == 501
    assert {result.denominator for result in results[1:]} == {10}


@pytest.mark.parametrize(
    "bad",
    [
        spec("a", "accuracy", unit="per mille"),
        spec("a", "accuracy", level=1.5),
        spec("a", "accuracy", cluster="yes"),
        spec("a", "accuracy", []),
        spec("a", "pass_at", k=0),
        spec("a", "pass_at", k=1.5),
        spec("a", "rate"),
        spec("a", "rate", outcome="lost"),
        spec("a", "instability", unit="percent"),
    ],
)
def test_a_spec_without_sense_is_refused_before_any_item(bad: pb.MetricSpec) -> None:
    with pytest.raises(RequestError, match="metric 'a'"):
        summarize([], bad)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5) | st.integers(0, 2**64 - 1), max_size=40))
def test_numbers_are_places_among_the_different_values(values: list[int]) -> None:
    column = np.array(values, np.uint64)
    assert numbered(column).tolist() == np.unique(column, return_inverse=True)[1].tolist()


@pytest.mark.full
def test_a_summary_takes_little_memory() -> None:
    number = 30_000
    specs = [spec("acc", "accuracy", ["a"]), spec("all", "group_all"), spec("bias", "choice_bias")]
    summarize([passed("t/1", "scored", 1.0)], *specs)  # imports on first use do not count
    summarizer = Summarizer(specs, metrics())
    tracemalloc.start()
    try:
        for index in range(number):
            item = passed(f"t/{index}", "scored", float(index % 2), labels={"a": "xyz"[index % 3]}, targets=["A"])
            item.group, item.verdict.extracted = str(index // 5), "AB"[index % 2]
            summarizer.add(item, item.verdict)
        kept, _ = tracemalloc.get_traced_memory()
        summarizer.finish()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 50 * number
    assert peak < 140 * number
