"""Published metrics beside our own: the tables of `orchestrator.papers` that a run has a task of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.papers.cells import found, made_by, of_tasks, other_rows
from orchestrator.papers.tables import Paper, Table, papers
from orchestrator.run_folder.metrics import MetricResult
from orchestrator.run_folder.reader import Run

OTHERWISE = "This run was asked in another way than the paper's, so its row is empty."


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One model's line; `own` is the run's."""

    model: str
    cells: Sequence[str]
    own: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """One table: the published rows and, first, the run's own."""

    title: str
    columns: Sequence[str]
    rows: Sequence[PublishedRow]
    source: str = ""


def tables(run: Run) -> list[Beside]:
    """Returns the published tables that have a column of one of a run's tasks."""
    return [
        _beside(paper, table, run)
        for paper in papers().values()
        for table in paper.tables
        if table.rows and of_tasks(paper, table, run)
    ]


def unpublished(run: Run) -> list[str]:
    """Returns those of a run's tasks that no published table has."""
    known = {paper.runs[name].task for paper in papers().values() for table in paper.tables for name in table.runs}
    return [task for task in run.tasks if not any(task == name or task.startswith("reform_") for name in known)]


def _beside(paper: Paper, table: Table, run: Run) -> Beside:
    match = made_by(paper, run)
    mine = found(paper, table, match, run)
    our_row = PublishedRow("", [_own_cell(metric) for metric in mine], own=True)
    rows = [PublishedRow(model, [_cell(cell, table.digits) for cell in cells]) for model, cells in table.rows.items()]
    others = ", ".join(other_rows(run))
    notes = [paper.cited(table), "" if set(match) & set(table.runs) else OTHERWISE]
    notes += [f"This run has {others}, not the paper's."] if others else []
    columns = [column.name for column in table.columns]
    return Beside(f"{paper.name}, {table.heading}", columns, [our_row, *rows], " ".join(filter(None, notes)))


def _own_cell(metric: MetricResult | None) -> str:
    # A run of ten rows beside a paper's thousand: let it be seen.
    return "–" if metric is None else f"{metric.text(metric.value, 2)} n={metric.denominator:,}"


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
