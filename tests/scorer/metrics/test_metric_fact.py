"""Facts of items besides their scores: their mean, and the classes that slice items."""

from __future__ import annotations

import math

import pytest

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.facts import fact_class
from scorer.errors import RequestError
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer


def summary(specs, items, failed=()):
    summarizer = Summarizer(specs, metrics())
    for number, (score, facts, labels) in enumerate(items):
        outcome = "failed" if number in failed else "scored"
        verdict = pb.Verdict(key=str(number), outcome=outcome, score=None if number in failed else score)
        summarizer.add(pb.ScoreRequest(key=str(number), facts=facts, labels=labels), verdict)
    return summarizer.finish().metrics


def spec(name, kind, by=(), **params):
    metric_spec = pb.MetricSpec(name=name, metric=kind, by=[pb.Slice(labels=[label]) for label in by])
    metric_spec.params.update(params)
    return metric_spec


def test_the_mean_is_over_items_that_have_the_fact():
    items = [(1, {"calls": 2}, {}), (0, {"calls": 5}, {}), (1, {}, {})]
    (result,) = summary([spec("calls", "fact", fact="calls")], items)
    assert (result.value, result.denominator, result.details["items_without_fact"]) == (3.5, 2, 1)
    assert result.HasField("interval")


def test_counts_that_happen_to_be_0_or_1_are_not_shares():
    always = [(1, {"calls": 1}, {})] * 4
    (result,) = summary([spec("calls", "fact", fact="calls")], always)
    assert (result.value, result.HasField("interval")) == (1, False)
    assert result.details["no_interval"].startswith("all samples have the same value")
    (result,) = summary([spec("errors", "fact", fact="e")], [(1, {"e": 0}, {}), (1, {"e": 1}, {}), (1, {"e": 1}, {})])
    assert result.interval.method == "t over items"
    assert result.interval.low == 0, "no mean of counts is negative"
    (result,) = summary([spec("e", "fact", fact="e")], [(1, {"e": -1}, {}), (1, {"e": 1}, {}), (1, {"e": 1}, {})])
    assert result.interval.low < 0


def test_a_fact_that_no_item_has_is_undefined():
    (result,) = summary([spec("x", "fact", fact="x")], [(1, {"calls": 2}, {})])
    assert not result.HasField("value")


def test_accuracy_is_sliced_by_classes_of_a_fact_and_a_label_goes_before_it():
    items = [(1, {"calls": 2}, {}), (0, {"calls": 2}, {}), (1, {"calls": 12}, {}), (1, {"calls": 1}, {"calls": "none"})]
    _, *slices = summary([spec("accuracy", "accuracy", by=["calls"])], items)
    assert {result.labels["calls"]: result.value for result in slices} == {"2": 0.5, "10-15": 1.0, "none": 1.0}


def test_a_metric_without_its_fact_is_refused():
    with pytest.raises(RequestError, match="names no fact"):
        summary([spec("calls", "fact")], [])


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (0, "0"),
        (9, "9"),
        (10, "10-15"),
        (16, "16-31"),
        (1500, "1024-2047"),
        (0.05, "0.0-0.1"),
        (0.55, "0.5-0.6"),
        (1, "1"),
        (2.5, "2-3"),
        (-3, "below 0"),
        (math.nan, "unknown"),
    ],
)
def test_classes_of_facts(value, name):
    assert fact_class(value) == name


def test_an_item_counts_as_often_as_its_weight():
    items = [(1, {"length": 2, "n": 1}, {}), (0, {"length": 5, "n": 2}, {}), (1, {"n": 0}, {}), (1, {"length": 9}, {})]
    (result,) = summary([spec("length", "fact", fact="length", weight="n")], items)
    assert (result.value, result.denominator, result.details["items_without_fact"]) == (4, 3, 2)
    assert result.interval.low < 4 < result.interval.high
    assert (result.value_answered, result.denominator_answered) == (4, 3)
    (result,) = summary([spec("length", "fact", fact="length", weight="n")], items, failed=[0])
    assert (result.value, result.value_answered, result.denominator_answered) == (4, 5, 2)
    (alike,) = summary([spec("length", "fact", fact="length", weight="n")], [(1, {"length": 2, "n": 3}, {})])
    assert (alike.value, alike.denominator) == (2, 3)
    (none,) = summary([spec("length", "fact", fact="length", weight="n")], [(1, {"n": 1}, {})])
    assert not none.HasField("value")
