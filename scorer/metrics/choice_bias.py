"""Whether a model prefers an option for its place or letter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lynceus.scorer.v1 import scorer_pb2 as pb
from scorer.metrics import answers
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.table import Table


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    constant = params.number("constant", 0.95, 0.5, 1.0 + 1e-9)

    def compute(table: Table) -> pb.Figure:
        keys = [
            answers.name(targets[0], options) if targets else None
            for targets, options in zip(table.word("targets"), table.word("options"), strict=True)
        ]
        known = np.array([key is not None for key in keys], bool)
        read = table.scored & known
        chosen = [
            answers.name(str(word), options)
            for word, options, use in zip(table.word("extracted"), table.word("options"), read, strict=True)
            if use
        ]
        wanted = [str(key) for key, use in zip(keys, read, strict=True) if use]
        figure = pb.Figure(denominator=len(chosen), denominator_answered=len(chosen))
        if not chosen:
            return figure
        picks, truth = answers.shares(chosen), answers.shares(wanted)
        names = sorted(picks.keys() | truth.keys())
        distance = math.fsum(abs(picks.get(name, 0.0) - truth.get(name, 0.0)) for name in names) / 2
        figure.value = figure.value_answered = distance
        majority = max(names, key=lambda name: picks.get(name, 0.0))
        elsewhere = known & np.array([key != majority for key in keys], bool)
        recalls = {name: _mean(table, np.array([key == name for key in keys], bool)) for name in sorted(truth)}
        figure.details.update(
            {
                "chosen": picks,
                "key": truth,
                "majority": majority,
                "majority_share": picks[majority],
                "constant": picks[majority] >= constant,
                "accuracy_elsewhere": _mean(table, elsewhere),
                "items_elsewhere": int(elsewhere.sum()),
                "accuracy_by_key": recalls,
                "items_without_answer_or_key": len(table) - len(chosen),
            }
        )
        p_value = _homogeneity(chosen, wanted, names)
        if p_value is not None:
            figure.details["p_value"] = p_value
        return figure

    return Plan(compute, columns=frozenset({"extracted", "targets", "options"}))


def _mean(table: Table, rows: np.ndarray) -> float | None:
    values = table.values()[rows]
    return math.fsum(values) / len(values) if len(values) else None


def _homogeneity(chosen: Sequence[str], wanted: Sequence[str], names: Sequence[str]) -> float | None:
    """Returns the p-value of Stuart and Maxwell's test that choices and key are distributed alike."""
    import warnings

    from statsmodels.stats.contingency_tables import SquareTable

    place = {name: index for index, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, ([place[name] for name in chosen], [place[name] for name in wanted]), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a singular table is answered with NaN, which is looked at below
        p_value = float(SquareTable(counts, shift_zeros=False).homogeneity().pvalue)
    return None if math.isnan(p_value) else round(p_value, 10)


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
