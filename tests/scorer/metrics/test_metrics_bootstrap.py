"""Intervals of any metric from resamples of samples or groups."""

from __future__ import annotations

import random

import numpy as np
import pytest
from helpers.scorer_asking import measure, passed, spec, summarize
from scipy import stats

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.metrics.base import Metric, Plan
from scorer.metrics.summarizer import Summarizer
from scorer.metrics.table import Table
from scorer.registry import Registry


def items_of(groups: int, size: int, repeats: int = 1) -> list[pb.ScoreRequest]:
    """Returns items of groups whose difficulty differs, so that groups and samples give other intervals."""
    items, draw = [], np.random.default_rng(7)
    for group, ease in enumerate(draw.beta(0.4, 0.4, groups)):
        for sample in range(size):
            for repeat in range(repeats):
                key = f"t/{group}.{sample}{f'#{repeat}' if repeat else ''}"
                item = passed(
                    key, "scored", float(draw.random() < ease), group=f"g{group}", labels={"half": "ab"[group % 2]}
                )
                items.append(item)
    return items


def by_group(items: list[pb.ScoreRequest], of: str = "group") -> np.ndarray:
    scores: dict[str, list[float]] = {}
    for item in items:
        scores.setdefault(item.group if of == "group" else item.key.partition("#")[0], []).append(item.verdict.score)
    return np.array(list(scores.values()))


def summary_with(metric: Metric, items: list[pb.ScoreRequest], *by: list[str], **params: object) -> pb.Summary:
    summarizer = Summarizer([spec("m", metric.name, *by, **params)], Registry("metric", {}, (Metric,), [metric]))
    for item in items:
        summarizer.add(item, item.verdict)
    return summarizer.finish()


def lowest(table: Table) -> pb.MetricResult:
    """Returns the mean of the lower three quarters of the groups, which is not a mean over items."""
    _, group = np.unique(table.group, return_inverse=True)
    means = np.sort(np.bincount(group, table.values()) / np.bincount(group))
    return pb.MetricResult(value=float(means[: max(1, len(means) * 3 // 4)].mean()), denominator=len(means))


LOWEST = Metric(name="lowest", description="x", plan=lambda _: Plan(lowest, bootstrap="groups"))


def test_complete_groups_are_resampled_and_a_copy_is_another_group() -> None:
    items = items_of(groups=80, size=3)
    means = by_group(items).mean(axis=1)

    def share(rows: np.ndarray, axis: int = -1) -> np.ndarray:
        return (rows == 1).mean(axis=axis)

    reference = stats.bootstrap((means,), share, method="percentile", n_resamples=5000, rng=1).confidence_interval
    result = measure(items, "group_all", bootstrap="groups", draws=2000)
    assert (result.interval.low, result.interval.high) == pytest.approx((reference.low, reference.high), abs=0.02)
    assert result.interval.method == "bootstrap over groups, 2000 draws"

    by_default, over_samples = measure(items, "accuracy"), measure(items, "accuracy", bootstrap="samples")
    over_groups = measure(items, "accuracy", bootstrap="groups")
    assert (over_groups.interval.low, over_groups.interval.high) == pytest.approx(
        (by_default.interval.low, by_default.interval.high), abs=0.02
    )
    width = over_samples.interval.high - over_samples.interval.low
    assert over_groups.interval.high - over_groups.interval.low > 1.3 * width


def test_repeats_stay_with_their_sample() -> None:
    items = items_of(groups=60, size=1, repeats=3)
    for item in items:
        item.ClearField("group")
    all_right = by_group(items, "sample").all(axis=1).astype(float)
    reference = stats.bootstrap((all_right,), np.mean, method="percentile", n_resamples=5000, rng=1)
    expected = reference.confidence_interval
    for unit in ("samples", "groups"):  # without groups an item's repeats are one
        result = measure(items, "pass_at", k=3, all=True, bootstrap=unit)
        assert (result.interval.low, result.interval.high) == pytest.approx((expected.low, expected.high), abs=0.03)


def test_a_plugins_metric_and_its_slices_have_intervals_in_any_order() -> None:
    items = items_of(groups=60, size=2)
    first = summary_with(LOWEST, items, ["half"], unit="percent")
    random.Random(1).shuffle(items)
    assert summary_with(LOWEST, items, ["half"], unit="percent").SerializeToString(
        deterministic=True
    ) == first.SerializeToString(deterministic=True)
    means = by_group(items).mean(axis=1)
    draw = np.random.default_rng(3)
    draws = [np.sort(draw.choice(means, len(means)))[:45].mean() for _ in range(5000)]
    overall = first.metrics[0].interval
    assert (overall.low, overall.high) == pytest.approx(tuple(100 * np.quantile(draws, (0.025, 0.975))), abs=2.0)
    assert 0 < overall.low < overall.high < 100
    assert [bool(result.interval.method) for result in first.metrics] == [True] * 3
    narrow = summary_with(LOWEST, items, level=0.5, draws=100).metrics[0].interval
    assert narrow.method == "bootstrap over groups, 100 draws"
    assert narrow.high - narrow.low < (overall.high - overall.low) / 100


def test_an_interval_that_cannot_be_had_is_said_and_costs_no_value() -> None:
    items = items_of(groups=4, size=1)

    def picky(table: Table) -> pb.MetricResult:
        if len(np.unique(table.group)) < 4:
            raise KeyError("three rows")
        return pb.MetricResult(value=0.5)

    metric = Metric(name="picky", description="x", plan=lambda _: Plan(picky, bootstrap="groups"))
    result = summary_with(metric, items).metrics[0]
    # Of four groups drawn, some are mostly the same; each copy counts as a group, so that none is missing.
    assert (result.value, result.interval.low, result.interval.high) == (0.5, 0.5, 0.5)

    def rare(table: Table) -> pb.MetricResult:
        if (table.values() == table.values()[0]).all():
            raise KeyError("no variance")
        return pb.MetricResult(value=0.5)

    metric = Metric(name="rare", description="x", plan=lambda _: Plan(rare, bootstrap="samples"))
    few = [passed(f"t/{n}", "scored", float(n == 0)) for n in range(3)]
    result = summary_with(metric, few).metrics[0]
    assert not result.HasField("interval")
    assert "undefined for more than 5% of the resamples of samples, KeyError" in result.details["no_interval"]
    one = summary_with(LOWEST, few[:1]).metrics[0]
    assert (one.value, one.details["no_interval"]) == (1.0, "fewer than two groups")


@pytest.mark.parametrize("params", [{"bootstrap": "rows"}, {"draws": 10}, {"draws": "many"}])
def test_parameters_without_sense_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(RequestError, match=r"'m': parameter '(bootstrap|draws)'"):
        summarize([], spec("m", "accuracy", **params))
    unknown = Metric(name="unknown", description="x", plan=lambda _: Plan(lowest, bootstrap="rows"))
    with pytest.raises(RequestError, match="neither samples nor groups"):
        summary_with(unknown, [])
