"""A suite's outputs: its leaderboard, its exit code and the reason for it."""

from __future__ import annotations

from pathlib import Path

from orchestrator.compare import gate, leaderboard
from orchestrator.compare.leaderboard import CellState, Leaderboard, Source, not_complete
from orchestrator.errors import ConfigError, EngineError, IncompleteError, LimitError
from orchestrator.suite import drift
from orchestrator.suite.record import Record, RecordedCell

NOT_SHOWN = 5
_PRECEDENCE = (EngineError, ConfigError, IncompleteError, LimitError)
"""Ends by precedence: a defect, a mistake, an incomplete cell, a gate or limit that failed."""


def board_of(record: Record, folder: Path) -> Leaderboard:
    """Returns the leaderboard of a suite's folder as it is now."""
    sources = [source(cell, folder) for cell in record.cells]
    conditions = gate.parse(record.gate) if record.gate else []
    measured = drift.read(folder)
    return leaderboard.make(record.suite, sources, conditions, record.baseline, measured.noise if measured else None)


def source(cell: RecordedCell, folder: Path) -> Source:
    """Returns a cell as the leaderboard takes it."""
    failed = cell.exit_code in (EngineError.exit_code, ConfigError.exit_code)
    return Source(cell.model, cell.variant, cell.tasks, folder / cell.name, failed, cell.error, cell.step)


def exit_code(record: Record, board: Leaderboard) -> int:
    """Returns the exit code of a suite, the first that holds: 1 defect, 2 mistake, 3 incomplete, 4 failed, 5 not shown.

    A cell that was not run is incomplete.
    """
    codes = {IncompleteError.exit_code if cell.exit_code is None else cell.exit_code for cell in record.cells}
    states = {entry.state for _, entry in board.entries()}
    if CellState.FAILED in states and EngineError.exit_code not in codes:
        codes |= {ConfigError.exit_code}
    if states - {CellState.COMPLETE, CellState.NO_RESULT}:
        codes |= {IncompleteError.exit_code}
    elif board.unjudged:
        codes |= {ConfigError.exit_code}
    codes |= {LimitError.exit_code} if board.verdict == gate.FAIL else set()
    codes |= {NOT_SHOWN} if board.verdict == gate.NOT_SHOWN else set()
    return next((code for code in (*(end.exit_code for end in _PRECEDENCE), NOT_SHOWN) if code in codes), 0)


def summary(record: Record, board: Leaderboard) -> str:
    """Returns why a suite does not end with 0, and how to go on."""
    left = [state for _, state, _ in not_complete(board) if state is not CellState.NO_RESULT]
    if failed := left.count(CellState.FAILED):
        return f"{failed} of {len(record.cells)} cells failed: the reasons are above"
    if left:
        return f"{len(left)} of {len(record.cells)} cells are not complete; run the same command again to resume"
    if limited := [cell for cell in record.cells if cell.exit_code == LimitError.exit_code]:
        return f"{limited[0].name}: {limited[0].error}"
    return "; ".join(board.unjudged) or f"the gate: {board.verdict}"
