"""Numbers known of items beside their scores: their mean, and classes that items are sliced by."""

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
    found = pb.MetricSpec(name=name, metric=kind, by=[pb.Slice(labels=[label]) for label in by])
    found.params.update(params)
    return found


def test_the_mean_is_over_items_that_have_the_fact():
    items = [(1, {"calls": 2}, {}), (0, {"calls": 5}, {}), (1, {}, {})]
    (found,) = summary([spec("calls", "fact", fact="calls")], items)
    assert (found.value, found.denominator, found.details["items_without_fact"]) == (3.5, 2, 1)
    assert found.HasField("interval")


def test_a_fact_that_no_item_has_is_undefined():
    (found,) = summary([spec("x", "fact", fact="x")], [(1, {"calls": 2}, {})])
    assert not found.HasField("value")


def test_accuracy_is_sliced_by_classes_of_a_fact_and_a_label_goes_before_it():
    items = [(1, {"calls": 2}, {}), (0, {"calls": 2}, {}), (1, {"calls": 12}, {}), (1, {"calls": 1}, {"calls": "none"})]
    _, *slices = summary([spec("accuracy", "accuracy", by=["calls"])], items)
    assert {found.labels["calls"]: found.value for found in slices} == {"2": 0.5, "10-15": 1.0, "none": 1.0}


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
    (found,) = summary([spec("length", "fact", fact="length", weight="n")], items)
    assert (found.value, found.denominator, found.details["items_without_fact"]) == (4, 3, 2)
    assert found.interval.low < 4 < found.interval.high
    assert (found.value_answered, found.denominator_answered) == (4, 3)
    (found,) = summary([spec("length", "fact", fact="length", weight="n")], items, failed=[0])
    assert (found.value, found.value_answered, found.denominator_answered) == (4, 5, 2)
    (alike,) = summary([spec("length", "fact", fact="length", weight="n")], [(1, {"length": 2, "n": 3}, {})])
    assert (alike.value, alike.denominator) == (2, 3)
    (none,) = summary([spec("length", "fact", fact="length", weight="n")], [(1, {"n": 1}, {})])
    assert not none.HasField("value")
