"""Consistency: the agreement of repeats of one sample, right or wrong."""

from __future__ import annotations

import math
from collections import Counter

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics.intervals import SHARE
from scorer.metrics import answers
from scorer.metrics.answers import UNREADABLE
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import mean_result
from scorer.metrics.requirements import require_repeats
from scorer.metrics.table import Table, together


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    level = params.level

    def compute(table: Table) -> pb.MetricResult:
        require_repeats(table, 2)
        values, groups, unanimous, right = _agreement(table)
        answered = _agreement(table.take(table.answered))[0]
        result = mean_result(values, groups, level, SHARE, answered)
        if values:
            result.details.update({"unanimous": unanimous / len(values), "majority_accuracy": right / len(values)})
        return result

    return Plan(compute, columns=frozenset({"extracted", "options", "rule"}))


def _agreement(table: Table) -> tuple[list[float], list[int], int, int]:
    """Returns each sample's share of agreeing pairs, its group; and the counts of unanimous and of right majorities."""
    if not len(table):
        return [], [], 0, 0
    answer_of = answers.extracted(table)
    values, groups, unanimous, right = [], [], 0, 0
    for rows in together(table.sample):
        if len(rows) < 2:
            continue
        counts = Counter(answer for row in rows.tolist() if (answer := answer_of[row]) != UNREADABLE)
        agreeing = sum(math.comb(count, 2) for count in counts.values())
        values.append(agreeing / math.comb(len(rows), 2))
        groups.append(int(table.group[rows[0]]))
        unanimous += agreeing == math.comb(len(rows), 2)
        first, second = [*counts.most_common(2), (UNREADABLE, 0), (UNREADABLE, 0)][:2]
        if first[1] > second[1]:
            right += any(answer_of[row] == first[0] and table.score[row] == 1.0 for row in rows.tolist())
    return values, groups, unanimous, right


METRIC = Metric(
    name="consistency",
    description="Mean over samples of the share of pairs of repeats (keys that differ in #n alone) with the "
    "same answer, compared by the text of the option; an item without an extracted answer agrees with none. "
    "Samples with one repeat are left out. details: unanimous (share of samples whose repeats all agree) and "
    "majority_accuracy (share whose most frequent answer, if there is exactly one, is right).",
    plan=plan,
)
