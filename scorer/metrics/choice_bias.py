"""Choice bias: the preference of a model for an option by its position or letter."""

from __future__ import annotations

import math

from lyncean.arrays import Bools, Ints, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics.significance import homogeneity
from scorer.metrics import answers
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.calibration import BIASED
from scorer.metrics.table import Table

MOST_NAMES = 64
"""Most option names for which distributions and the test are computed; with more, options are free text."""


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    constant = params.number("constant", 0.95, 0.5, 1.0 + 1e-9)

    def compute(table: Table) -> pb.MetricResult:
        names, chosen, keys = _named(table)
        read = table.scored & (keys >= 0) & (chosen >= 0)
        number = int(read.sum())
        result = pb.MetricResult(denominator=number, denominator_answered=number)
        if not number:
            return result
        picks, truth = (np.bincount(codes[read], minlength=len(names)) for codes in (chosen, keys))
        result.value = result.value_answered = float(np.abs(picks - truth).sum()) / number / 2
        majority = int(picks.argmax())
        share = int(picks[majority]) / number
        elsewhere = (keys >= 0) & (keys != majority)
        result.details.update(
            {
                "majority": names[majority],
                "majority_share": share,
                "constant": share >= constant,
                "accuracy_elsewhere": _mean(table, elsewhere),
                "items_elsewhere": int(elsewhere.sum()),
                "items_without_answer_or_key": len(table) - number,
            }
        )
        if len(names) <= MOST_NAMES:
            by_key = {name: _mean(table, keys == code) for code, name in enumerate(names) if truth[code]}
            shares = [
                {names[code]: int(counts[code]) / number for code in np.flatnonzero(counts)}
                for counts in (picks, truth)
            ]
            result.details.update({"chosen": shares[0], "key": shares[1], "accuracy_by_key": by_key})
            counts = np.bincount(chosen[read] * len(names) + keys[read], minlength=len(names) ** 2)
            p_value = homogeneity(counts.reshape(len(names), len(names)))
            if p_value is not None:
                result.details["p_value"] = round(p_value, 10)
        return result

    columns = frozenset({"extracted", "targets", "options", "rule"})
    return Plan(compute, columns=columns, no_interval=f"{BIASED}; details.p_value tests it")


def _named(table: Table) -> tuple[list[str], Ints, Ints]:
    """Returns the names of options, and the codes of each row's choice and key; -1 if a row has none."""
    chosen, of_chosen = answers.coded(table, "extracted", answers.name)
    keys, of_keys = answers.coded(table, "targets", answers.name)
    names = sorted({*of_chosen, *of_keys} - {""})  # "" is an unread answer
    code_of = {name: code for code, name in enumerate(names)}
    recoded = [np.array([*(code_of.get(name, -1) for name in of), -1], np.int32) for of in (of_chosen, of_keys)]
    return names, recoded[0][chosen], recoded[1][keys]


def _mean(table: Table, rows: Bools) -> float | None:
    values = table.values()[rows]
    return math.fsum(values) / len(values) if len(values) else None


METRIC = Metric(
    name="choice_bias",
    description="Total variation distance between how often each option is chosen and how often it is right "
    "(0: alike, 1: disjoint), over scored items. Options are named by letter or digit, by place. details: "
    "both distributions, the majority choice and its share, whether the answer is as good as constant, the "
    "accuracy over all planned items whose key is another option than the majority choice, the accuracy by "
    "key, and the p-value of Stuart and Maxwell's test.",
    plan=plan,
    params={"constant": "share of one choice from which the answer counts as constant, default 0.95"},
)
