"""Intervals of a harness's own aggregations: by each value alone, by random halves, or a reason in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from helpers.scorer_asking import passed, spec, summarize

from lyncean_harnesses import library
from lyncean_harnesses.library.scored import Scored
from lyncean_harnesses.library.values import encode
from lyncean_harnesses.scoring import cell, spread, task_metric
from lyncean_harnesses.scoring.judge import address, run
from scorer import foreign_tasks
from scorer.metrics import Params


class Task(Scored):
    """A task with one aggregation, of which each call is counted."""

    instance = filter = likelihoods = None  # type: ignore[assignment]

    def __init__(self, aggregation: Callable[[list[Any]], Any], cluster_key: str | None = None) -> None:
        self._aggregation, self._cluster_key, self.calls = aggregation, cluster_key, 0

    def aggregate(self, metric: str, values: list[Any]) -> Any:
        self.calls += 1
        return self._aggregation(values)

    def cluster(self, value: Any) -> str | None:
        return value.get(self._cluster_key) if self._cluster_key else None

    def is_mean(self, metric: str) -> bool:
        return False


def interval(task: Task, values: Sequence[Any], repeats: int = 1) -> spread.IntervalOrReason:
    parts = [spread.part(task, ("fake:t", "m", repeat), dict(enumerate(values))) for repeat in range(repeats)]
    return spread.of_repeats(parts, 0.95)


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def f1(values: Sequence[tuple[int, int]]) -> float:
    hit = sum(a and b for a, b in values)
    return 2 * hit / (sum(a for a, _ in values) + sum(b for _, b in values))


def by_id(values: Sequence[Mapping[str, Any]]) -> float:
    """An accuracy of what remains where samples are kept by their id, squared so that it is not a mean."""
    kept = {value["id"]: value["score"] for value in values}
    return mean(list(kept.values())) ** 2


def pairs(values: Sequence[Mapping[str, Any]]) -> float:
    """As MME: both questions on an image have to be right, in per cent."""
    questions: dict[str, list[int]] = {}
    for value in values:
        questions.setdefault(value["question_id"], []).append(value["score"])
    assert all(len(scores) == 2 for scores in questions.values())
    return 100 * mean([float(min(scores)) for scores in questions.values()])


def test_a_mean_in_fact_has_the_interval_of_a_mean() -> None:
    right = [{"score": score} for score in [1] * 30 + [0] * 10]
    shares, _ = interval(Task(lambda values: mean([value["score"] for value in values])), right)
    percent, _ = interval(Task(lambda values: 100 * mean([value["score"] for value in values])), right)
    assert shares is not None
    assert percent is not None
    assert shares.method == percent.method == "wilson"
    assert (percent.low, percent.high) == pytest.approx((100 * shares.low, 100 * shares.high))


def test_samples_of_one_cluster_key_are_one_piece_of_evidence() -> None:
    values = [{"score": float(number // 4 % 4 > 0), "video": str(number // 4)} for number in range(160)]

    def accuracy(values: Sequence[Mapping[str, float]]) -> float:
        return mean([value["score"] for value in values])

    alone, together = interval(Task(accuracy), values)[0], interval(Task(accuracy, "video"), values)[0]
    assert alone is not None
    assert together is not None
    assert together.method == "wilson over clusters"
    assert together.high - together.low > 1.7 * (alone.high - alone.low)


def test_halves_vary_as_the_metric_does() -> None:
    """The interval of an F1 over 300 samples, whose true value 0.8 it holds in about 95% of 60 runs."""
    random, held, widths = np.random.default_rng(5), 0, []
    for _ in range(60):
        truth = random.random(300) < 0.5
        answers = np.where(random.random(300) < 0.2, ~truth, truth)
        bounds, reason = interval(Task(f1), list(zip(truth.tolist(), answers.tolist(), strict=True)))
        assert bounds is not None, reason
        held += bounds.low <= 0.8 <= bounds.high
        widths.append(bounds.high - bounds.low)
    assert held >= 53, "the chance of fewer at 95% is 1%"
    assert 0.09 < mean(widths) < 0.12, "of 2,000 samples of 300 the middle 95% of the F1 are 0.107 wide"


def test_an_aggregation_that_keeps_samples_by_their_id_has_no_copies() -> None:
    values = [{"id": number, "score": float(number % 5 > 0)} for number in range(400)]
    bounds, _ = interval(Task(by_id), values)
    assert bounds is not None
    error = 2 * 0.8 * (0.8 * 0.2 / 400) ** 0.5
    assert (bounds.high - bounds.low) / 2 / 1.96 == pytest.approx(error, rel=0.1), "with copies it is a quarter less"


def test_samples_that_an_aggregation_takes_together_stay_together() -> None:
    values = [
        {"question_id": f"q{number // 2}", "category": "c", "score": int(number % 7 > 0)} for number in range(280)
    ]
    bounds, reason = interval(Task(pairs), values)
    assert bounds is not None, reason
    assert bounds.low < pairs(values) < bounds.high
    three = Task(lambda values: pairs(values) if len(values) == 280 else pairs(values[1:]))
    assert interval(three, values)[1].startswith("undefined for more than 5% of random halves of the samples, Assert")


@pytest.mark.parametrize(
    ("aggregation", "reason"),
    [
        (lambda values: float(len(values)), "other values on average: it depends on their number"),
        (lambda values: max(values) + min(values) ** 2, "random halves of the samples have the same value"),
        (lambda values: mean(values) ** 2 if len(values) == 40 else 1 / 0, "ZeroDivisionError for example"),
        (lambda values: mean(values) ** 2 if len(values) == 40 else {}, "undefined for more than 5% of random halves"),
    ],
)
def test_what_halves_cannot_show_has_a_reason(aggregation: Callable[[list[float]], Any], reason: str) -> None:
    bounds, message = interval(Task(aggregation), [0.0, 0.5, 1.0, 1.0] * 10)
    assert bounds is None
    assert reason in message


def test_one_sample_and_equal_ones_have_a_reason() -> None:
    assert interval(Task(lambda values: 0.0), [1.0] * 9)[1].startswith(
        "all samples have the same value, which does not"
    )
    assert interval(Task(f1), [(1, 1)])[1] == "fewer than two samples in fake:t"


def test_what_asks_a_judge_or_starts_programs_is_not_repeated() -> None:
    import urllib.request

    def asks(values: list[float]) -> float:
        body = b'{"messages": [{"role": "user", "content": "How many?"}], "model": "m"}'
        request = urllib.request.Request(f"{address()}/chat/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30):
            return mean(values) ** 2

    done = run(lambda: spread.part(Task(mean), ("fake:t", "m", 0), dict(enumerate([0.0, 1.0, 1.0]))), {})
    assert done.value is not None
    squared = Task(asks)
    part = spread.Part("fake:t", "m", 0, squared, done.value.values, done.value.units, 0.4, False)
    assert spread.of_repeats([part], 0.95) == (None, "its aggregation asks a judge about all samples together")
    assert squared.calls <= 4
    squared.starts_programs = True
    assert "starts programs" in spread.of_repeats([part], 0.95)[1]


def test_what_takes_too_long_is_tried_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    time = iter(range(0, 10_000, 2))
    monkeypatch.setattr(spread, "_processor_time", lambda: next(time))
    task = Task(f1)
    assert interval(task, [(1, 1), (1, 0), (0, 1)] * 9)[1] == "its aggregation takes too long to repeat 1,000 times"
    assert task.calls < 20


def test_an_aggregation_that_changes_its_values_gets_fresh_ones() -> None:
    def changing(values: list[dict[str, float]]) -> float:
        for value in values:
            value["score"] = value.pop("raw") ** 2  # fails on what it has seen
        return mean([value["score"] for value in values]) ** 0.5

    bounds, reason = interval(Task(changing), [{"raw": number / 40} for number in range(40)])
    assert bounds is not None, reason
    assert bounds.low < (mean([(number / 40) ** 2 for number in range(40)])) ** 0.5 < bounds.high


def test_the_metric_has_it_in_whatever_order_items_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_tasks, "_started_with", [foreign_tasks.ForeignTasks(on=True)])
    monkeypatch.setitem(library.PREFIXES, "fake", "nothing")
    monkeypatch.setattr(task_metric, "task_of", lambda _: Task(f1))
    monkeypatch.setattr(cell, "measured", lambda _, __, params, table, known:
                        run(lambda: task_metric.measured_here(Params(params), table), known))  # fmt: skip
    items = []
    for number in range(60):
        for repeat in ("", "#1"):
            item = passed(f"fake:t/{number}{repeat}", "scored", 0.0)
            value = (number % 2, int(number % 3 > 0) if repeat else number % 2)
            item.verdict.details = encode({"index": number, "results": {"none": {"m": value}}})
            items.append(item)
    wanted = spec("m", "harness_task")
    wanted.params.update({"task": "fake:t", "metric": "m"})
    one, other = (summarize(order, wanted).metrics[0] for order in (items, items[::-1]))
    assert one == other
    assert one.interval.low < one.value < one.interval.high
    assert one.interval.method == "1,000 random halves of the samples"
    same = summarize(items[2:4], wanted).metrics[0]
    assert not same.HasField("interval")
    assert same.details["no_interval"] == "fewer than two samples in fake:t"
