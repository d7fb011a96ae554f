"""The mean of a score or of one of its parts."""

from __future__ import annotations

import math

import numpy as np

from lynceus.scorer.v1 import scorer_pb2 as pb
from scorer.metrics import intervals
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.table import Table

CLUSTER = "whether items of one group (or repeats of one item) count as dependent in the interval, default true"


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    part = params.word("part", "")
    cluster = params.flag("cluster", True)
    level = params.level

    def compute(table: Table) -> pb.Figure:
        values = table.values(part)
        answered = values[table.answered]
        figure = pb.Figure(
            value=math.fsum(values) / len(values),
            interval=intervals.of_mean(values, table.group if cluster else None, level),
            denominator=len(values),
            denominator_answered=len(answered),
        )
        if len(answered):
            figure.value_answered = math.fsum(answered) / len(answered)
        if part:
            # A part that the rule did not report is not a zero of its own making: say so.
            missing = int(np.isnan(table.parts[part][table.scored]).sum())
            if missing:
                figure.details["scored_without_part"] = missing
        return figure

    return Plan(compute, parts=(part,) if part else ())


METRIC = Metric(
    name="mean",
    description="Mean of the score, or of the part of it that params.part names, over all planned items, where an item "
    "without it counts 0; value_answered is the same over scored and unparsed items. For scores with partial credit.",
    plan=plan,
    params={"part": "a key of Verdict.scores; default the score itself", "cluster": CLUSTER},
    unit="",
)
