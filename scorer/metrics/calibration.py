"""Expected calibration error: the gap between a model's confidence and its accuracy."""

from __future__ import annotations

import math

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.table import Table

BIASED = "never negative and biased upwards, which resamples add to"


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    bins = params.integer("bins", 10, 1, 1000)
    part = params.word("part", "probability")

    def compute(table: Table) -> pb.MetricResult:
        kept = table.scored & ~np.isnan(table.parts[part])
        sure, right = table.parts[part][kept], table.score[kept]
        number = len(sure)
        result = pb.MetricResult(denominator=number, denominator_answered=number)
        if number:
            # Bins are half-open from above, (0, 0.1] and so on, as in the paper.
            bin_of = np.clip(np.ceil(sure * bins).astype(np.int64) - 1, 0, bins - 1)
            rows = []
            for index in np.unique(bin_of).tolist():
                inside = bin_of == index
                count = int(inside.sum())
                confidence, accuracy = math.fsum(sure[inside]) / count, math.fsum(right[inside]) / count
                rows.append({"from": index / bins, "items": count, "confidence": confidence, "accuracy": accuracy})
            gaps = [abs(row["accuracy"] - row["confidence"]) for row in rows]
            result.value = math.fsum(row["items"] * gap for row, gap in zip(rows, gaps, strict=True)) / number
            result.value_answered = result.value
            result.details.update(
                {
                    "bins": rows,
                    "largest_gap": max(gaps),
                    "brier": math.fsum((sure - right) ** 2) / number,
                    "confidence": math.fsum(sure) / number,
                    "accuracy": math.fsum(right) / number,
                }
            )
        result.details["items_without_probability"] = int((~kept).sum())
        return result

    return Plan(compute, parts=(part,), no_interval=BIASED)


METRIC = Metric(
    name="calibration",
    description="Expected calibration error (Guo et al., arXiv:1706.04599, equation 3): the gap between how "
    "sure the model is of its choice and how often it is right, over bins of equal width, weighted by their "
    "items. Over scored items that have the probability; others are counted in details. details also: the "
    "bins, the largest gap, and the Brier score of the chosen option. ECE is never negative and is biased "
    "upwards in small samples, which resamples add to: it has no interval.",
    plan=plan,
    params={
        "bins": "how many bins, default 10",
        "part": "the part of the score that is a probability, default probability",
    },
)
