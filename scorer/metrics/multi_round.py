"""The trend of the score over the rounds of a dialogue."""

from __future__ import annotations

import math

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics import intervals as stats
from scorer.errors import RequestError
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.table import Table


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    label = params.word("label", "round")

    def compute(table: Table) -> pb.MetricResult:
        rounds = _rounds(table, label)
        kept = ~np.isnan(rounds)
        means = _means(rounds[kept], table.values()[kept])
        correlation, slope = _line(means)
        answered = kept & table.answered
        means_answered = _means(rounds[answered], table.values()[answered])
        correlation_answered, _ = _line(means_answered)
        result = pb.MetricResult(denominator=len(means), denominator_answered=len(means_answered))
        if correlation is not None:
            result.value = correlation
        if correlation_answered is not None:
            result.value_answered = correlation_answered
        result.details.update(
            {
                "slope": slope,
                "rounds": [{"round": at, "mean": mean, "items": items} for at, mean, items in means],
                "items_without_round": int((~kept).sum()),
            }
        )
        return result

    return Plan(compute, labels=(label,), bootstrap="groups")


def _rounds(table: Table, label: str) -> np.ndarray:
    numbers = []
    for labels in table.labels:
        value = labels.get(label)
        try:
            numbers.append(math.nan if value is None else float(value))
        except ValueError:
            raise RequestError(f"multi_round: label {label!r} is {value!r}, not a number", "invalid_metric") from None
    return np.array(numbers, np.float64)[table.combination]


def _means(rounds: np.ndarray, values: np.ndarray) -> list[tuple[float, float, int]]:
    means = []
    for round_number in np.unique(rounds).tolist():
        scores = values[rounds == round_number]
        means.append((round_number, math.fsum(scores) / len(scores), len(scores)))
    return means


def _line(means: list[tuple[float, float, int]]) -> tuple[float | None, float]:
    """Returns Pearson's correlation and the least-squares slope; None and 0 if the means are constant."""
    if len({mean for _, mean, _ in means}) < 2:
        return None, 0.0
    correlation, slope = stats.line([at for at, _, _ in means], [mean for _, mean, _ in means])
    return round(correlation, 12), round(slope, 12)


METRIC = Metric(
    name="multi_round",
    description="Pearson's correlation between the round (a label that holds a number) and the mean score of "
    "that round, each round one point; details: the slope of the least-squares line, and the mean of each "
    "round. Undefined for fewer than two rounds or equal means, where the slope is 0. Items without the label "
    "are left out. The denominator is the number of rounds.",
    plan=plan,
    params={"label": "the label that holds the round, default round"},
    unit="",
)
