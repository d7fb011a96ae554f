"""The page of a suite's leaderboard: one file that opens offline, with a way to the report of every cell."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from orchestrator.compare.leaderboard import CellState, Leaderboard
from orchestrator.compare.terminal import p_value
from orchestrator.report.page import document


def render(board: Leaderboard, folder: Path) -> str:
    """Returns the page.

    Args:
        board: What to show.
        folder: Where the page will lie.
    """
    paths = {source.path.name: source.path for source in board.sources}
    addresses = {
        name: quote(Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()) + "/"
        for name, path in paths.items()
    }
    left = not_complete(board)
    return document(
        "leaderboard.html",
        scripts=(),
        board=board,
        folders=addresses,
        p_value=p_value,
        left=left,
        done=len(board.sources) - len(left),
    )


def not_complete(board: Leaderboard) -> list[tuple[str, CellState, str]]:
    """Returns name, state and reason of every cell that is not complete."""
    found = {
        entry.source.path.name: (entry.state, entry.source.error)
        for _, entry in board.entries()
        if entry.state is not CellState.COMPLETE
    }
    return [(name, *rest) for name, rest in found.items()]
