"""The error that the reading of answers could hide."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from lyncean.statistics.intervals import wilson
from lyncean.vocabulary.outcomes import Outcome
from lyncean.vocabulary.reasons import ERRORS, Confidence, Reason, confidence
from orchestrator.run.reading import Readings, hidden_error
from orchestrator.run_folder.lines import VerdictLine
from orchestrator.run_folder.metrics import how_read, offered


def line(number: int, rule: str, outcome: Outcome, reason: str) -> VerdictLine:
    item: dict[str, Any] = {"task": "t", "labels": {}, "group": "", "targets": ["A"], "options": []}
    return VerdictLine(key=str(number), rule=rule, outcome=outcome, reason=reason, **item)


def test_answers_of_one_class_hide_its_measured_rate() -> None:
    wrong, read = ERRORS[Confidence.DOUBTFUL]
    low, high = wilson(wrong, read)
    estimate = hidden_error({"doubtful": 50}, 50)
    assert estimate["points"] == pytest.approx(100 * wrong / read, abs=1e-3)
    assert (estimate["low"], estimate["high"]) == pytest.approx((100 * low, 100 * high), abs=1e-3)


def test_what_needs_no_reading_hides_nothing() -> None:
    assert hidden_error({"constraint": 7, "second_reader": 3}, 10)["high"] == 0


def test_the_interval_covers_the_true_error_of_several_classes() -> None:
    """In 300 worlds in which the rates are measured anew from known ones, 95% of the intervals hold the truth."""
    draw = random.Random(5)
    by = {"rule": 800, "doubtful": 120, "unparsed": 80}
    names = dict(zip(by, (Confidence.FIRM, Confidence.DOUBTFUL, Confidence.UNPARSED), strict=True))
    true = {kind: measured.wrong / measured.read for kind, measured in ERRORS.items()}
    truth = sum(number * true[names[name]] for name, number in by.items()) / 10
    measured = dict(ERRORS)
    held = 0
    try:
        for _ in range(300):
            for kind, (_, read) in measured.items():
                ERRORS[kind] = ERRORS[kind]._replace(wrong=sum(draw.random() < true[kind] for _ in range(read)))
            estimate = hidden_error(by, 1000)
            held += estimate["low"] <= truth <= estimate["high"]
    finally:
        ERRORS.update(measured)
    assert held >= 0.92 * 300


def test_a_task_tells_how_its_answers_were_read() -> None:
    readings = Readings(constrained=True)
    for _ in range(2):  # as the metrics are asked for again
        readings.restart()
        readings.add(line(1, "choice", Outcome.SCORED, Reason.BARE))
        readings.add(line(2, "choice", Outcome.SCORED, Reason.STATED))
        readings.add(line(3, "choice", Outcome.SCORED, Reason.LIKELY))
        readings.add(line(4, "choice", Outcome.UNPARSED, Reason.CONFLICT))
        readings.add(line(5, "choice", Outcome.UNPARSED, Reason.EMPTY_ANSWER))
        readings.add(line(6, "choice", Outcome.FAILED, ""))
    summary = readings.summary()
    assert summary
    assert summary["by"] == {"constraint": 1, "rule": 1, "second_reader": 0, "doubtful": 1, "unparsed": 1}
    assert 0 < summary["hidden"]["low"] < summary["hidden"]["points"] < summary["hidden"]["high"]
    text = how_read({"one": {"reading": summary}, "other": {}})
    assert re.match(
        r"About \d\.\d points of one may be parsing errors \[\d\.\d, \d\.\d\]: 1 read by constraint, ", text
    )
    assert text.endswith("1 read by rule, 1 doubtful, 1 unparsed")
    doubts = [{"cause": "unanswered", "words": "no result: 4 unparsed", "void": True}]
    assert how_read({"one": {"reading": summary, "doubts": doubts}}) == ""
    firm = {"by": summary["by"], "hidden": {"points": 0.9, "low": 0.7, "high": 1.3, "level": 0.95}}
    assert how_read({"one": {"reading": firm}}) == ""
    assert not offered({"one": {"reading": summary}}, {})
    read = {"one": {"reading": {**summary, "by": {**summary["by"], "constraint": 0}, "hidden": {"points": 9.0}}}}
    assert "--answer constrained" in offered(read, {})
    assert not offered(read, {"tools": {"names": ["zoom"]}}), "it is refused beside tools"


def test_no_words_are_told_of_a_task_that_is_not_read() -> None:
    readings = Readings(constrained=False)
    readings.add(line(1, "likelihood", Outcome.SCORED, "most_likely"))
    assert readings.summary() is None
    assert confidence("voila_properties", "scored", Reason.STATED) is None
    assert how_read({"one": {}}) == offered({"one": {}}, {}) == ""
