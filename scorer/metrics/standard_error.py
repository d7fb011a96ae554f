"""The parts of a mean's standard error in MetricResult.details; docs/statistics.md explains them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from google.protobuf import struct_pb2

from lyncean.arrays import Floats, Ints, np
from lyncean.statistics.distributions import t_quantile
from lyncean.statistics.variance import variance_parts
from scorer.metrics.table import Table, numbered

STANDARD_ERROR = "standard_error"
"""A key of MetricResult.details."""

ORDERS = ("options", "targets")
"""Columns that reveal the order of the options; if an image shows them, only the targets do."""

NAMES = frozenset({"groups", "items", "order", "repeats"})
"""Reserved names: parts and factors that are not facets."""

_IN_UNIT = frozenset({"total", "interval", "low", "high", "error", "doubled"})

FACETS = (
    "labels whose values are conditions that items are asked under, such as prompts or image sizes: "
    f"details.{STANDARD_ERROR} tells their parts of the standard error, and that of the order of options"
)


def note(
    details: struct_pb2.Struct,
    table: Table,
    values: Floats,
    groups: Ints,
    facets: Sequence[str] | None,
    level: float,
    within: tuple[float, float],
) -> None:
    """Writes the parts of a mean's standard error into its details if there are several.

    Args:
        details: The details of the mean's result.
        table: The items.
        values: One per item.
        groups: The cluster of each item.
        facets: The parameter; None if it is missing, and the order of options unknown.
        level: Coverage of the interval.
        within: Bounds of the mean.
    """
    labels = {name: _levels(table, name) for name in facets or ()}
    if not labels and not table.repeat.any():
        return
    orders = np.zeros(len(table), np.int64)
    for column in () if facets is None else ORDERS:
        codes = table.codes[column].astype(np.int64)
        orders = numbered(orders * (int(codes.max()) + 1) + codes).astype(np.int64)
    numbers, items = (numbered(codes).astype(np.int64) for codes in (groups, table.sample))
    variance = variance_parts(values, numbers, items, labels, orders)
    if variance is None:
        return
    error = math.sqrt(variance.total)
    entry: dict[str, Any] = {
        "total": _rounded(error),
        "interval": _rounded(math.sqrt(variance.interval)),
        "parts": [
            {"name": part.name, "error": _rounded(math.sqrt(part.variance)), "negative": part.negative}
            for part in variance.parts
        ],
        "factors": [
            {"name": name, "levels": round(levels, 2), "doubled": _rounded(math.sqrt(variance.doubled(name)))}
            for name, levels in variance.levels.items()
        ],
    }
    if variance.total > variance.interval:
        mean, reach = math.fsum(values) / len(values), t_quantile(level, variance.df) * error
        entry |= {"low": _rounded(max(mean - reach, within[0])), "high": _rounded(min(mean + reach, within[1]))}
    details.update({STANDARD_ERROR: entry})


def to_percent(standard_error: struct_pb2.Struct) -> None:
    """Multiplies the numbers in the metric's unit by 100."""
    lists = (standard_error.fields[name].list_value.values for name in ("parts", "factors"))
    for entry in (standard_error, *(value.struct_value for values in lists for value in values)):
        for name in _IN_UNIT & entry.fields.keys():
            entry.fields[name].number_value *= 100


def _levels(table: Table, label: str) -> Ints:
    """Returns codes of each item's value of a label; -1 for items without the label."""
    values = [labels.get(label) for labels in table.labels]
    code_of = {value: number for number, value in enumerate(sorted({value for value in values if value is not None}))}
    codes = np.array([-1 if value is None else code_of[value] for value in values], np.int64)
    return codes[table.combination]


def _rounded(number: float) -> float:
    return round(number, 10) + 0.0
