"""Metrics over the repeats of samples, and metrics of abstention."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from helpers.scorer_asking import measure, passed

from lyncean.scorer.v1 import scorer_pb2 as pb


def tried(sample: int, scores: list[float]) -> list[pb.ScoreRequest]:
    """Returns the repeats of a sample."""
    return [passed(f"t/{sample}" + (f"#{n}" if n else ""), "scored", score) for n, score in enumerate(scores)]


def test_pass_at_k_is_the_estimator_without_bias() -> None:
    """Equation 1 of Chen et al. 2021: the share of all choices of k tries that hold a right one."""
    random = np.random.default_rng(4)
    tries = [random.integers(0, 2, 6).tolist() for _ in range(12)]
    items = [item for number, scores in enumerate(tries) for item in tried(number, scores)]
    for k in range(1, 7):
        chosen = [np.mean([any(some) for some in combinations(scores, k)]) for scores in tries]
        result = measure(items, "pass_at", k=k)
        assert result.value == pytest.approx(np.mean(chosen))
        assert result.value == pytest.approx(np.mean([1 - comb(6 - sum(s), k) / comb(6, k) for s in tries]))
        assert result.HasField("interval") or "no_interval" in result.details
        every = np.mean([np.mean([all(some) for some in combinations(scores, k)]) for scores in tries])
        assert measure(items, "pass_at", k=k, all=True).value == pytest.approx(every)


def test_avg_at_k_counts_samples_and_not_tries() -> None:
    items = [*tried(1, [1, 1, 0, 0]), *tried(2, [0.5, 0.5]), *tried(3, [1])]
    result = measure(items, "avg_at", k=2)
    assert (result.value, result.denominator) == (pytest.approx(0.5), 2)
    assert result.details["samples_with_fewer_than_k"] == 1
    assert result.details["no_interval"]
    assert measure([*items, *tried(4, [1, 1]), *tried(5, [0, 1])], "avg_at", k=2).HasField("interval")


@pytest.mark.parametrize(
    ("metric", "params", "message"),
    [
        ("pass_at", {"k": 4}, "k is 4, and no sample has more than 3 repeats: run with --repeats 4"),
        ("avg_at", {"k": 9}, "k is 9, and no sample has more than 3 repeats: run with --repeats 9"),
    ],
)
def test_more_tries_than_repeats_are_refused(metric: str, params: dict[str, int], message: str) -> None:
    result = measure([*tried(1, [1, 0, 1]), *tried(2, [0])], metric, **params)
    assert not result.HasField("value")
    assert result.details["metric_failed"] == message


@pytest.mark.parametrize("metric", ["avg_at", "consistency", "instability"])
def test_metrics_of_repeats_refuse_where_there_are_none(metric: str) -> None:
    result = measure([item for number in range(5) for item in tried(number, [1])], metric)
    assert not result.HasField("value")
    assert "no sample has more than 1 repeat: run with --repeats 2" in result.details["metric_failed"]


def test_a_score_that_is_no_share_has_no_right_answer() -> None:
    result = measure([*tried(1, [5.0, 2.0]), *tried(2, [1.0, 0.0])], "pass_at", k=2)
    assert result.details["metric_failed"] == "scores of this task are from 0 to 5, and a right answer has 1"


def answers() -> list[pb.ScoreRequest]:
    """Returns eight items: three right, one half, one wrong, one that abstains, one declined, one failed."""
    items = [passed(f"t/{number}", "scored", score) for number, score in enumerate((1.0, 1.0, 1.0, 0.5, 0.0))]
    items += [passed("t/5", "unparsed", 0.0), passed("t/6", "refused", 0.0), passed("t/7", "failed")]
    items[5].verdict.reason = "abstained"
    return items


@pytest.mark.parametrize(
    ("of", "value", "answered"),
    [("abstention", 2 / 8, 2 / 7), ("coverage", 6 / 8, 5 / 7), ("risk", 1 - 3.5 / 6, 1 - 3.5 / 5)],
)
def test_abstention_has_coverage_and_risk(of: str, value: float, answered: float) -> None:
    result = measure(answers(), "abstention", of=of)
    assert (result.value, result.value_answered) == (pytest.approx(value), pytest.approx(answered))
    assert result.interval.low <= result.value <= result.interval.high
    others = {name: result.details[name]["value"] for name in ("abstention", "coverage", "risk") if name != of}
    abstention = measure(answers(), "abstention")
    for name, other in others.items():
        assert other == pytest.approx(abstention.value if name == "abstention" else abstention.details[name]["value"])


def test_an_answer_that_names_no_choice_is_no_abstention() -> None:
    items = answers()
    items[5].verdict.reason = "no_choice"
    assert measure(items, "abstention").value == pytest.approx(1 / 8)


@pytest.mark.parametrize("metric", ["accuracy", "mean", "pass_at", "avg_at", "group_all", "abstention"])
def test_scores_that_stand_for_nothing_make_no_number(metric: str) -> None:
    items = answers()
    items[0].verdict.reason, items[0].verdict.score = "part_of_an_answer", 0.0
    result = measure(items, metric)
    assert not result.HasField("value")
    assert result.details["metric_failed"].startswith("1 items have no score of their own")
