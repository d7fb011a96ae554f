"""Metrics of groups of foreign tasks, by a harness of our own: no other package is needed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest
from helpers.scorer_asking import passed, spec, summarize

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean_harnesses import library as harness
from lyncean_harnesses.library.catalogue import Group
from lyncean_harnesses.library.values import encode
from lyncean_harnesses.scoring import cell, group_metric
from lyncean_harnesses.scoring.judge import Known, Round, run
from scorer import foreign_tasks
from scorer.metrics import Params, Table

GROUPS = {
    "sized": Group("sized", ("few", "many"), {"sized": True}),
    "even": Group("even", ("few", "many"), {"sized": False}),
    "best": Group("best", ("few", "many"), {}),
    "lone": Group("lone", ("few", "one"), {"sized": True}),
}


class _Task:
    """Its aggregations: a mean, a mean that `is_mean` does not report, and one that takes pairs."""

    def results(self, doc: Any, responses: Any) -> Any:
        raise AssertionError("nothing is asked several times")

    def aggregates(self, metric: str) -> bool:
        return metric != "unused"

    starts_programs = False

    def cluster(self, value: Any) -> None:
        return None

    def is_mean(self, metric: str) -> bool:
        return metric == "acc"

    def aggregate(self, metric: str, values: Sequence[float]) -> Any:
        if metric == "fails":
            raise ValueError("no luck")
        if metric == "pairs":
            assert len(values) % 2 == 0
            return sum(map(min, zip(values[::2], values[1::2], strict=True))) / (len(values) / 2)
        return None if metric == "nothing" else sum(values) / len(values)


class _Library:
    prefix = "fake"

    def groups(self, name: str, include: tuple[str, ...]) -> list[Group]:
        return [GROUPS[name]]

    def runs_text(self, *_: Any) -> str:
        return ""

    def scored(self, *_: Any) -> _Task:
        return _Task()

    def size(self, counts: Sequence[int]) -> int:
        return counts[-1]

    def combine(
        self, group: Group, values: Mapping[str, Mapping[str, float]], sizes: Mapping[str, int]
    ) -> Mapping[str, float]:
        (key,) = {key for metrics in values.values() for key in metrics}
        numbers = {task: metrics[key] for task, metrics in values.items()}
        if group.name == "best":
            return {key: max(numbers.values())}
        weights = {task: sizes[task] if group.config["sized"] else 1 for task in numbers}
        return {key: sum(numbers[task] * weights[task] for task in numbers) / sum(weights.values())}


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fake_harness")
    module.LIBRARY = _Library()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_harness", module)
    monkeypatch.setitem(harness.PREFIXES, "fake", "fake_harness")
    monkeypatch.setattr(foreign_tasks, "_started_with", [foreign_tasks.ForeignTasks(on=True)])

    def measured(_: str, __: Any, params: Mapping[str, Any], table: Table, known: Known) -> Round[pb.MetricResult]:
        return run(lambda: group_metric.measured_here(Params(params), table), known)

    monkeypatch.setattr(cell, "measured", measured)  # this harness is in this process alone


def items(few: Sequence[float | None], many: Sequence[float | None], metric: str = "acc") -> list[pb.ScoreRequest]:
    """Returns items with these values of a metric; None is an item that failed."""
    requests = []
    for task, values in (("few", few), ("many", many)):
        for index, value in enumerate(values):
            item = passed(f"fake:{task}/{index}", "failed" if value is None else "scored", value or 0.0)
            if value is None:
                item.verdict.ClearField("score")
            else:
                results = {"none": {metric: value, "unused": 1.0}}
                item.verdict.details = encode({"index": index, "results": results})
            item.labels["task"] = f"fake:{task}"
            requests.append(item)
    return requests


def metric_of(group: str, requests: list[pb.ScoreRequest], metric: str = "acc") -> pb.MetricResult:
    wanted = spec("m", "harness_group")
    wanted.params.update({"group": f"fake:{group}", "metric": metric})
    return summarize(requests, wanted).metrics[0]


FEW, MANY = [1.0, 0.0], [1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(("group", "value", "weight"), [("sized", 0.7, 0.2), ("even", 0.625, 0.5)])
def test_weights_and_interval_are_those_of_the_tasks(group: str, value: float, weight: float) -> None:
    for requests in (items(FEW, MANY), items(FEW, MANY)[::-1]):
        result = metric_of(group, requests)
        assert result.value == result.value_answered == value
        assert (result.denominator, result.denominator_answered) == (10, 10)
        assert dict(result.details["weights"]) == pytest.approx({"fake:few": weight, "fake:many": 1 - weight})
        assert result.interval.low < value < result.interval.high
        assert result.interval.method == "bootstrap over the samples of each task, 1000 draws"
    alike = metric_of("even", items([1.0, 1.0], [0.0, 0.0])).interval
    assert (alike.low, alike.high) == (0.5, 0.5)  # no spread within a task: the difference between tasks adds none


def test_an_aggregation_that_is_a_mean_in_fact_has_its_interval_and_another_one_by_halves_or_a_reason() -> None:
    assert metric_of("sized", items(FEW, MANY, "own"), "own").interval == metric_of("sized", items(FEW, MANY)).interval
    pairs = metric_of("sized", items(FEW, MANY, "pairs"), "pairs")
    assert pairs.value == 0.4
    assert not pairs.HasField("interval")
    reason = "undefined for more than 5% of random halves of the samples, AssertionError for example"
    assert pairs.details["no_interval"] == reason
    best = metric_of("best", items([0.0] * 12 + [1.0], MANY * 9))
    assert (best.value, best.interval.method) == (0.75, "1,000 random halves of the samples")
    assert 0.6 < best.interval.low < 0.7 < 0.8 < best.interval.high < 0.9
    # Of two tasks that are alike, the better one of each half is better than both.
    alike = metric_of("best", items(MANY, MANY))
    assert alike.details["no_interval"] == (
        "random halves of the samples have other values on average: it depends on their number"
    )


def test_without_all_items_of_all_tasks_it_is_undefined_and_says_why() -> None:
    lacking = metric_of("sized", items(FEW, [*MANY[:-1], None]))
    assert not lacking.HasField("value")
    assert (lacking.value_answered, lacking.denominator_answered) == (6 / 9, 9)
    reason = "1 of 10 items have no result, of fake:many; the value is over the others"
    assert lacking.details["not_computed"] == reason
    for group, requests, metric, key, why in (
        ("lone", items(FEW, []), "acc", "not_computed", "there are no items of fake:one"),
        ("sized", items(FEW, MANY), "f1", "not_computed", "no task has f1"),
        (
            "sized",
            items(FEW, MANY, "nothing"),
            "nothing",
            "not_computed",
            "the aggregation of fake:few returns nothing",
        ),
        ("sized", items(FEW, MANY, "fails"), "fails", "metric_failed", "ValueError: no luck"),
    ):
        result = metric_of(group, requests, metric)
        assert not result.HasField("value")
        assert result.details[key] == why
