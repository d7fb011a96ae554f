"""The standard error in the details of a mean: in its unit, and only if there are several parts."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from helpers.scorer_asking import measure, passed

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError


def items(rows: int = 60, repeats: int = 10) -> list[pb.ScoreRequest]:
    """Returns answers that are right by chance, more often with instruction 4 or if the first option is right."""
    chance = random.Random(0)
    answers = []
    for row in range(rows):
        for repeat in range(repeats):
            order = chance.sample(["yes", "no"], 2)
            likely = 0.2 + 0.3 * (order[0] == "yes") + 0.4 * (repeat % 5 == 4)
            answers.append(
                passed(
                    f"t/{row}" + (f"#{repeat}" if repeat else ""),
                    "scored",
                    float(chance.random() < likely),
                    options=order,
                    labels={"instruction": str(repeat % 5)},
                )
            )
    return answers


def standard_error(result: pb.MetricResult) -> dict[str, Any]:
    details: dict[str, Any] = MessageToDict(result.details).get("standard_error", {})
    return details


def test_parts_factors_and_the_wider_interval() -> None:
    parts = standard_error(measure(items(), "accuracy", facets=["instruction"]))
    names = ["items", "instruction", "instruction × items", "order", "repeats"]
    assert [part["name"] for part in parts["parts"]] == names
    assert [(factor["name"], factor["levels"]) for factor in parts["factors"]] == [
        ("items", 60), ("instruction", 5), ("repeats", 2),
    ]  # fmt: skip
    assert sum(part["error"] ** 2 for part in parts["parts"]) == pytest.approx(parts["total"] ** 2)
    assert parts["interval"] < parts["total"]
    result = measure(items(), "accuracy")
    assert parts["low"] < result.interval.low < result.interval.high < parts["high"]
    assert [part["name"] for part in standard_error(result)["parts"]] == ["items", "repeats"]
    assert standard_error(result)["interval"] == standard_error(result)["total"] == parts["interval"]
    assert "low" not in standard_error(result)


def test_arrival_leaves_no_trace_and_percent_is_of_everything_but_levels() -> None:
    parts = standard_error(measure(items(), "accuracy", facets=["instruction"]))
    shuffled = items()
    random.Random(1).shuffle(shuffled)
    assert standard_error(measure(shuffled, "accuracy", facets=["instruction"])) == parts
    percent = standard_error(measure(items(), "accuracy", facets=["instruction"], unit="percent"))
    for name in ("total", "interval", "low", "high"):
        assert percent[name] == pytest.approx(100 * parts[name])
    for one, other in zip(percent["parts"] + percent["factors"], parts["parts"] + parts["factors"], strict=True):
        assert {name: one[name] for name in one.keys() & {"name", "levels", "negative"}}.items() <= other.items()
        assert one.get("error", one.get("doubled")) == pytest.approx(100 * other.get("error", other.get("doubled")))


def test_nothing_is_said_where_nothing_can_be_told_apart() -> None:
    assert not standard_error(measure(items(repeats=1), "accuracy", facets=["instruction"]))
    assert not standard_error(measure(items(repeats=1), "accuracy", facets=["nobody has it"]))
    assert not standard_error(measure(items(), "accuracy", cluster=False)), (
        "the interval takes all answers to be independent"
    )


@pytest.mark.parametrize(("facets", "message"), [("prompt", "give a list of strings"), (["order"], "rename the label")])
def test_facets_without_sense_are_refused(facets: object, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        measure(items(2), "accuracy", facets=facets)
