"""All or nothing: the share of groups whose every item is right."""

from __future__ import annotations

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import mean_result
from scorer.metrics.table import Table, numbered


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    level = params.level

    def compute(table: Table) -> pb.MetricResult:
        repeats = int(table.repeat.max()) + 1
        number = numbered(table.group.astype(np.int64) * repeats + table.repeat)
        sizes = np.bincount(number)
        groups = np.empty(len(sizes), np.int32)
        groups[number] = table.group
        right = (np.bincount(number, table.values() == 1.0) == sizes).astype(np.float64)
        answered = np.bincount(number, table.answered) == sizes
        result = mean_result(right, groups, level, answered=right[answered])
        # Reported, since groups of unequal size are a sign of missing items.
        result.details.update({"items_in_smallest_group": int(sizes.min()), "items_in_largest_group": int(sizes.max())})
        return result

    return Plan(compute, of_scores=True)


METRIC = Metric(
    name="group_all",
    description="Share of groups whose every item (of those that pass `where`) has score 1; an item without a group is "
    "a group of its own, and each repeat of a group is another. value_answered is over the groups of which every item "
    "is scored or unparsed. Wilson's interval, over groups where there are repeats.",
    plan=plan,
)
