"""The mean of a score or of one of its parts."""

from __future__ import annotations

import math

import numpy as np

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics import intervals, power
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.table import Floats, Ints, Table

CLUSTER = "whether items of one group (or repeats of one item) count as dependent in the interval, default true"


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    part = params.word("part", "")
    cluster = params.flag("cluster", True)
    level = params.level
    # What is given in percent is a share; another part may be anything.
    share = not part or params.word("unit", "fraction") == "percent"

    def items(table: Table) -> tuple[Floats, Ints | None]:
        return table.values(part), table.group if cluster else None

    def compute(table: Table) -> pb.Figure:
        values, clusters = items(table)
        answered = values[table.answered]
        bounded = share and bool(((values >= 0) & (values <= 1)).all())
        figure = pb.Figure(
            value=math.fsum(values) / len(values),
            interval=intervals.of_mean(values, clusters, level, intervals.SHARE if bounded else intervals.UNBOUNDED),
            denominator=len(values),
            denominator_answered=len(answered),
        )
        if len(answered):
            figure.value_answered = math.fsum(answered) / len(answered)
        difference = power.detectable(values, clusters)
        if difference is not None:
            figure.details[power.DIFFERENCE] = round(difference, 6)
        if part:
            # A part that the rule did not report is not a zero of its own making: say so.
            missing = int(np.isnan(table.parts[part][table.scored]).sum())
            if missing:
                figure.details["scored_without_part"] = missing
        return figure

    return Plan(compute, parts=(part,) if part else (), items=items)


METRIC = Metric(
    name="mean",
    description="Mean of the score, or of the part of it that params.part names, over all planned items, where an item "
    "without it counts 0; value_answered is the same over scored and unparsed items. For scores with partial credit.",
    plan=plan,
    params={"part": "a key of Verdict.scores; default the score itself", "cluster": CLUSTER},
    unit="",
)
