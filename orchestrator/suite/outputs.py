"""What a suite's folder shows: its leaderboard as a page and as tables, and its exit code."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from orchestrator.compare import gate, leaderboard
from orchestrator.compare.leaderboard import CellState, Leaderboard, Source
from orchestrator.errors import ConfigError, EngineError, IncompleteError, LimitError
from orchestrator.interop.tables import escape
from orchestrator.report.leaderboard import not_complete, render
from orchestrator.run_folder.log import write_error
from orchestrator.run_folder.manifest import write
from orchestrator.suite.record import Record

NAME = "leaderboard"
NOT_SHOWN = 5
_PRECEDENCE = (EngineError, ConfigError, IncompleteError, LimitError)
"""Which end counts of several: a defect, a mistake, an incomplete cell, a gate or limit that failed."""


def board_of(record: Record, folder: Path) -> Leaderboard:
    """Returns the leaderboard of a suite's folder as it is now."""
    sources = [
        Source(
            cell.model,
            cell.variant,
            cell.tasks,
            folder / cell.name,
            cell.exit_code in (EngineError.exit_code, ConfigError.exit_code),
            cell.error,
        )
        for cell in record.cells
    ]
    conditions = gate.parse(record.gate) if record.gate else []
    return leaderboard.make(record.suite, sources, conditions, record.baseline)


def save(board: Leaderboard, folder: Path) -> Path:
    """Writes leaderboard.html, .json, .csv and .md into a suite's folder and returns the page's path.

    Raises:
        RunWriteError: One cannot be written.
    """
    write(folder / f"{NAME}.json", board.as_json())
    page = folder / f"{NAME}.html"
    for path, text in (
        (page, render(board, folder)),
        (folder / f"{NAME}.csv", _csv(board)),
        (folder / f"{NAME}.md", _markdown(board)),
    ):
        try:
            path.write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise write_error(path, error) from error
    return page


def exit_code(record: Record, board: Leaderboard) -> int:
    """Returns the exit code of a suite, the first that holds: 1 defect, 2 mistake, 3 incomplete, 4 failed, 5 not shown.

    A cell that was not run is incomplete.
    """
    codes = {IncompleteError.exit_code if cell.exit_code is None else cell.exit_code for cell in record.cells}
    states = {entry.state for _, entry in board.entries()}
    if CellState.FAILED in states and EngineError.exit_code not in codes:
        codes |= {ConfigError.exit_code}
    if states != {CellState.COMPLETE}:
        codes |= {IncompleteError.exit_code}
    elif board.unjudged:
        codes |= {ConfigError.exit_code}
    codes |= {LimitError.exit_code} if board.verdict == gate.FAIL else set()
    codes |= {NOT_SHOWN} if board.verdict == gate.NOT_SHOWN else set()
    return next((code for code in (*(each.exit_code for each in _PRECEDENCE), NOT_SHOWN) if code in codes), 0)


def summary(record: Record, board: Leaderboard) -> str:
    """Returns why a suite does not end with 0, and what to do."""
    left = [state for _, state, _ in not_complete(board)]
    if failed := left.count(CellState.FAILED):
        return f"{failed} of {len(record.cells)} cells failed: the reasons are above"
    if left:
        return f"{len(left)} of {len(record.cells)} cells are not complete; run the same command again to resume"
    if limited := [cell for cell in record.cells if cell.exit_code == LimitError.exit_code]:
        return f"{limited[0].name}: {limited[0].error}"
    return "; ".join(board.unjudged) or f"the gate: {board.verdict}"


_COLUMNS = (
    *("suite", "variant", "model", "task", "state", "metric", "value", "low", "high", "unit", "n"),
    *("rank", "to_best", "to_best_low", "to_best_high", "p", "run"),
)


def _csv(board: Leaderboard) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for variant, entry in board.entries():
        line: dict[str, object] = {"suite": board.name, "variant": variant, "model": entry.model, "task": entry.task}
        line |= {"state": entry.state, "run": entry.source.path.name}
        writer.writerow(line | {name: value for name, value in entry.numbers.items() if name in _COLUMNS})
    return out.getvalue()


def _markdown(board: Leaderboard) -> str:
    return "\n\n".join(_tables(board)) + "\n"


def _tables(board: Leaderboard) -> Iterator[str]:
    for table in board.tables:
        head = [f"{board.name} {table.variant}".strip(), *table.tasks]
        head += [f"mean of {len(table.tasks)} tasks"] if len(table.tasks) > 1 else []
        lines = [f"| {' | '.join(map(escape, head))} |", "|---|" + "---:|" * (len(head) - 1)]
        for row in table.rows:
            cells = [
                f"{entry.metric.shown}, n {entry.metric.denominator:,}" if entry.metric else str(entry.state)
                for entry in row.entries
            ]
            if len(table.tasks) > 1:
                cells.append("–" if row.mean is None else f"{100 * row.mean:.1f}")
            lines.append(f"| {' | '.join([escape(row.model), *cells])} |")
        yield "\n".join(lines)
