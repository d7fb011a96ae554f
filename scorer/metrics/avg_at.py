"""avg@k: the mean score of one try, from several tries at each sample."""

from __future__ import annotations

from lyncean.arrays import Floats, Ints, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics.intervals import bounds
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import mean_result
from scorer.metrics.requirements import FEWER, require_repeats
from scorer.metrics.table import Table


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    k = params.integer("k", 2, 2, 10_000)
    level = params.level

    def compute(table: Table) -> pb.MetricResult:
        require_repeats(table, k, "k")
        values, groups, skipped = _values(table, k)
        answered, _, _ = _values(table.take(table.answered), k)
        result = mean_result(values, groups, level, bounds(values), answered)
        if skipped:
            result.details[FEWER] = skipped
        return result

    return Plan(compute, of_scores=True)


def _values(table: Table, k: int) -> tuple[Floats, Ints, int]:
    """Returns mean score and group of all samples with at least k tries, and the number of other samples."""
    _, first, number = np.unique(table.sample, return_index=True, return_inverse=True)
    tries = np.bincount(number)
    sums = np.bincount(number, table.values(), minlength=len(tries))
    enough = tries >= k
    return sums[enough] / tries[enough], table.group[first][enough], int((~enough).sum())


METRIC = Metric(
    name="avg_at",
    description="Mean over samples of the mean score of their repeats (keys that differ in #n alone): avg@k without "
    "bias, also from more repeats than k. Samples with fewer than k are left out and counted in details.",
    plan=plan,
    params={"k": "how many tries, default 2"},
)
