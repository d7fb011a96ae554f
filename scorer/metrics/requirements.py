"""Requirements of metrics, held against the items: repeats, and scores that are shares."""

from __future__ import annotations

from lyncean.arrays import np
from scorer.errors import RequestError
from scorer.metrics.table import Table

FEWER = "samples_with_fewer_than_k"
"""A key of MetricResult.details: samples that are left out."""


def require_repeats(table: Table, needed: int, name: str = "") -> None:
    """Makes sure that some sample has enough repeats.

    Args:
        table: The items.
        needed: Repeats that the metric needs.
        name: The parameter that says so, "" where the metric itself does.

    Raises:
        RequestError: None has; names both numbers.
    """
    most = int(np.bincount(np.unique(table.sample, return_inverse=True)[1]).max(initial=0))
    if most < needed:
        wants = f"{name} is {needed}" if name else f"it needs {needed} repeats of a sample"
        there = f"no sample has more than {most} repeat{'s' * (most != 1)}"
        raise RequestError(f"{wants}, and {there}: run with --repeats {needed}", "too_few_repeats")


def require_shares(table: Table) -> None:
    """Makes sure that a score of 1 is a right answer.

    Raises:
        RequestError: A score is beyond 0 to 1.
    """
    values = table.values()
    if ((values < 0) | (values > 1)).any():
        ends = f"{values.min():g} to {values.max():g}"
        raise RequestError(f"scores of this task are from {ends}, and a right answer has 1", "wrong_scores")
