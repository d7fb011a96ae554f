"""Suites: models times tasks, run as cells. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from orchestrator.suite.file import CLUSTER as CLUSTER, Cell as Cell, Suite as Suite, read as read_suite
    from orchestrator.suite.outputs import board_of as board_of, exit_code as exit_code
    from orchestrator.suite.record import Record as Record, RecordedCell as RecordedCell
    from orchestrator.suite.terminal import show as show_board
    from orchestrator.suite.training import EvaluatedSeries as EvaluatedSeries

__all__ = ["read_suite", "show_board"]  # mypy takes a renamed import for public by this alone

__getattr__ = face(
    __name__,
    {
        "file": "CLUSTER Cell Suite read:read_suite",
        "outputs": "board_of exit_code",
        "record": "Record RecordedCell",
        "terminal": "show:show_board",
        "training": "EvaluatedSeries",
    },
)
