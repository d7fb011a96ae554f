"""What a mean says of its standard error: in `details`, in its unit, and only where something can be told apart."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from helpers.scorer_asking import measure, passed

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError


def items(rows: int = 60, repeats: int = 10) -> list[pb.ScoreRequest]:
    """Answers that are right by chance, more often with instruction 4 and where the right option is first."""
    chance = random.Random(0)
    made = []
    for row in range(rows):
        for repeat in range(repeats):
            order = chance.sample(["yes", "no"], 2)
            likely = 0.2 + 0.3 * (order[0] == "yes") + 0.4 * (repeat % 5 == 4)
            made.append(
                passed(
                    f"t/{row}" + (f"#{repeat}" if repeat else ""),
                    "scored",
                    float(chance.random() < likely),
                    options=order,
                    labels={"instruction": str(repeat % 5)},
                )
            )
    return made


def told(result: pb.MetricResult) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(result.details).get("standard_error", {})
    return found


def test_parts_factors_and_the_wider_interval() -> None:
    found = told(measure(items(), "accuracy", facets=["instruction"]))
    names = ["items", "instruction", "instruction × items", "order", "repeats"]
    assert [part["name"] for part in found["parts"]] == names
    assert [(factor["name"], factor["levels"]) for factor in found["factors"]] == [
        ("items", 60), ("instruction", 5), ("repeats", 2),
    ]  # fmt: skip
    assert sum(part["error"] ** 2 for part in found["parts"]) == pytest.approx(found["total"] ** 2)
    assert found["interval"] < found["total"]
    result = measure(items(), "accuracy")
    assert found["low"] < result.interval.low < result.interval.high < found["high"]
    assert [part["name"] for part in told(result)["parts"]] == ["items", "repeats"]
    assert told(result)["interval"] == told(result)["total"] == found["interval"]
    assert "low" not in told(result)


def test_arrival_leaves_no_trace_and_percent_is_of_everything_but_levels() -> None:
    found = told(measure(items(), "accuracy", facets=["instruction"]))
    shuffled = items()
    random.Random(1).shuffle(shuffled)
    assert told(measure(shuffled, "accuracy", facets=["instruction"])) == found
    percent = told(measure(items(), "accuracy", facets=["instruction"], unit="percent"))
    for name in ("total", "interval", "low", "high"):
        assert percent[name] == pytest.approx(100 * found[name])
    for one, other in zip(percent["parts"] + percent["factors"], found["parts"] + found["factors"], strict=True):
        assert {name: one[name] for name in one.keys() & {"name", "levels", "negative"}}.items() <= other.items()
        assert one.get("error", one.get("doubled")) == pytest.approx(100 * other.get("error", other.get("doubled")))


def test_nothing_is_said_where_nothing_can_be_told_apart() -> None:
    assert not told(measure(items(repeats=1), "accuracy", facets=["instruction"]))
    assert not told(measure(items(repeats=1), "accuracy", facets=["nobody has it"]))
    assert not told(measure(items(), "accuracy", cluster=False)), "the interval takes all answers to be independent"


@pytest.mark.parametrize(("facets", "said"), [("prompt", "give a list of strings"), (["order"], "rename the label")])
def test_facets_without_sense_are_refused(facets: object, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        measure(items(2), "accuracy", facets=facets)
