"""ReForm-Eval's instability, as its scripts compute it."""

from __future__ import annotations

import math
from collections import Counter

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics.intervals import entropy
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import of_mean
from scorer.metrics.table import Table, together


def plan(params: Params) -> Plan:
    """Reads the parameters, of which it has none besides the common ones."""
    level = params.level

    def compute(table: Table) -> pb.MetricResult:
        kept = table.take(table.answered)
        texts = [str(text) for text in kept.word("extracted")]
        groups = together(kept.group)
        values = [entropy(Counter(texts[row] for row in rows.tolist()).values()) for rows in groups]
        result = pb.MetricResult(denominator=len(values), denominator_answered=len(values))
        if values:
            result.value = result.value_answered = math.fsum(values) / len(values)
            result.details["tests"] = len(kept)
            interval = of_mean(np.array(values), None, level, (0.0, math.inf))
            if interval is not None:
                result.interval.CopyFrom(interval)
        return result

    return Plan(compute, columns=frozenset({"extracted"}))


METRIC = Metric(
    name="reform_instability",
    description="ReForm-Eval's instability: mean over groups of the entropy (natural logarithm) of what was extracted "
    "from a group's tests. For rule reform_choice, which names the option's text and, where it reads none, the answer "
    "itself: unlike instability, two different unreadable answers differ, and groups of one test count as stable.",
    plan=plan,
    unit="nats",
)
