"""ReForm-Eval's dimensions as rows of a table: every run's mean and rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.benchmarks.reform.datasets import DIMENSIONS
from orchestrator.benchmarks.reform.ranks import Standing


@dataclass(frozen=True, slots=True)
class Row:
    """A dimension, or the average over them.

    Attributes:
        name: What it is called.
        cells: Mean and rank of each run, as they are printed; "–" and "" where a run lacks something of it.
    """

    name: str
    cells: Sequence[tuple[str, str]]


def standing_rows(standings: Mapping[str, Standing]) -> list[Row]:
    """Returns the rows, none without runs of ReForm-Eval."""
    every = list(standings.values())
    rows = [
        Row(DIMENSIONS[key], [_cell(one.dimensions[key], one.ranks[key]) for one in every])
        for key in (every[0].dimensions if every else ())
    ]
    return [*rows, Row("average", [_cell(one.average, one.average_rank) for one in every])] if every else []


def _cell(value: float | None, rank: float | None) -> tuple[str, str]:
    return ("–", "") if value is None or rank is None else (f"{value:.1f}", f"{rank:g}")
