"""Instability: the entropy of the answers to one sample over its repeats."""

from __future__ import annotations

import math
from collections import Counter

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics.intervals import entropy
from lyncean.vocabulary.outcomes import Outcome
from scorer.metrics import answers
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import mean_result
from scorer.metrics.requirements import require_repeats
from scorer.metrics.table import CODES, Table, together

_READ = [CODES[outcome] for outcome in (Outcome.SCORED, Outcome.UNPARSED, Outcome.REFUSED)]


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    level = params.level
    by_group = params.word("over", "sample", ("sample", "group")) == "group"

    def compute(table: Table) -> pb.MetricResult:
        if not by_group:
            require_repeats(table, 2)
        kept = table.take(np.isin(table.outcome, _READ))
        if not len(kept):
            return pb.MetricResult()
        answer_of = answers.extracted(kept)
        values, groups = [], []
        for rows in together(kept.group if by_group else kept.sample):
            if len(rows) > 1:
                counts = Counter(answer_of[row] for row in rows.tolist())
                values.append(entropy(counts.values()))
                groups.append(int(kept.group[rows[0]]))
        result = mean_result(values, groups, level, (0.0, math.inf))
        if values:
            result.details["stable"] = values.count(0.0) / len(values)
        return result

    return Plan(compute, columns=frozenset({"extracted", "options", "rule"}))


METRIC = Metric(
    name="instability",
    description="Mean over samples of the entropy (natural logarithm, 0 is stable) of the answers to the "
    "repeats of one sample: keys that differ in #n alone. Answers compare by the text of the option, so "
    "options may be permuted; all that cannot be read (unparsed, refused) is one answer. Samples with fewer "
    "than two answers are left out. details.stable is the share of samples that always got the same answer.",
    plan=plan,
    params={"over": "what belongs together: sample (default) or group"},
    unit="nats",
)
