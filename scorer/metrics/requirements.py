"""Requirements that metrics check on the items: repeats, and scores between 0 and 1."""

from __future__ import annotations

from lyncean.arrays import np
from scorer.errors import RequestError
from scorer.metrics.table import Table

FEWER = "samples_with_fewer_than_k"
"""A key of MetricResult.details: the number of samples that are left out."""


def require_repeats(table: Table, needed: int, name: str = "") -> None:
    """Checks that at least one sample has enough repeats.

    Args:
        table: The items.
        needed: Repeats that the metric needs.
        name: The parameter that asks for them; "" if the metric always needs them.

    Raises:
        RequestError: No sample has; names both numbers.
    """
    most = int(np.bincount(np.unique(table.sample, return_inverse=True)[1]).max(initial=0))
    if most < needed:
        wants = f"{name} is {needed}" if name else f"it needs {needed} repeats of a sample"
        limit = f"no sample has more than {most} repeat{'s' * (most != 1)}"
        raise RequestError(f"{wants}, and {limit}: run with --repeats {needed}", "too_few_repeats")


def require_shares(table: Table) -> None:
    """Checks that scores are between 0 and 1, so that 1 is a right answer.

    Raises:
        RequestError: A score is below 0 or above 1.
    """
    values = table.values()
    if ((values < 0) | (values > 1)).any():
        ends = f"{values.min():g} to {values.max():g}"
        raise RequestError(f"scores of this task are from {ends}, and a right answer has 1", "wrong_scores")
