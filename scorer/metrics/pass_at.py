"""pass@k: the chance that at least one of k tries is right; pass^k: that all are."""

from __future__ import annotations

import math

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics.intervals import SHARE
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import mean_result
from scorer.metrics.requirements import FEWER, require_repeats, require_shares
from scorer.metrics.table import Table


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    k = params.integer("k", 1, 1, 10_000)
    every = params.flag("all", False)
    level = params.level

    def compute(table: Table) -> pb.MetricResult:
        require_repeats(table, k, "k")
        require_shares(table)
        values, groups, skipped = _values(table, k, every)
        answered, _, _ = _values(table.take(table.answered), k, every)
        result = mean_result(values, groups, level, SHARE, answered)
        if skipped:
            result.details[FEWER] = skipped
        return result

    return Plan(compute, of_scores=True)


def _values(table: Table, k: int, every: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns estimate and group of all samples with at least k tries, and the number of other samples."""
    _, first, number = np.unique(table.sample, return_index=True, return_inverse=True)
    tries = np.bincount(number)
    right = np.bincount(number, table.values() == 1.0).astype(np.int64)
    enough = tries >= k
    values = [
        math.comb(c, k) / math.comb(n, k) if every else 1 - math.comb(n - c, k) / math.comb(n, k)
        for n, c in zip(tries[enough].tolist(), right[enough].tolist(), strict=True)
    ]
    return np.array(values), table.group[first][enough], int((~enough).sum())


METRIC = Metric(
    name="pass_at",
    description="Mean over samples of the chance that of k of its repeats (keys that differ in #n alone), "
    "drawn without putting back, at least one has score 1 (Chen et al., arXiv:2107.03374, equation 1), or "
    "with params.all that every one has. Without bias for any number of repeats from k on; samples with fewer "
    "are left out and counted in details.",
    plan=plan,
    params={"k": "how many tries, default 1", "all": "whether all k must be right, default false"},
)
