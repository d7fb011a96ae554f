"""A suite's leaderboard as a page that opens offline, with a way to the report of every cell, and as tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from orchestrator.compare.contrasts import HEAD
from orchestrator.compare.leaderboard import Leaderboard, not_complete
from orchestrator.compare.terminal import p_value
from orchestrator.report import series
from orchestrator.report.page import document, relative_address
from orchestrator.run_folder.errors import write_error
from orchestrator.run_folder.manifest import write
from orchestrator.run_folder.metrics import markdown_cell
from orchestrator.suite import training

NAME = "leaderboard"


def render(board: Leaderboard, folder: Path) -> str:
    """Returns the page, for a file in `folder`."""
    left = not_complete(board)
    return document(
        "leaderboard.html",
        board=board,
        folders={source.path.name: relative_address(source.path, folder) for source in board.sources},
        p_value=p_value,
        contrast_head=HEAD,
        left=left,
        done=len(board.sources) - len(left),
        series=training.PAGE if training.is_series(folder) else "",
    )


def save(board: Leaderboard, folder: Path) -> Path:
    """Writes leaderboard.html, .json, .csv and .md into a suite's folder and returns the page's path.

    A suite with checkpoints gets their page as well, series.html.

    Raises:
        RunWriteError: One cannot be written.
    """
    write(folder / f"{NAME}.json", board.as_json())
    page = folder / f"{NAME}.html"
    for path, text in (
        (page, render(board, folder)),
        (folder / f"{NAME}.csv", _csv(board)),
        (folder / f"{NAME}.md", "\n\n".join(_tables(board)) + "\n"),
    ):
        try:
            path.write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise write_error(path, error) from error
    if training.is_series(folder):
        series.save(training.read(folder), folder)
    return page


_COLUMNS = (
    *("suite", "variant", "model", "task", "state", "metric", "value", "low", "high", "interval", "unit", "n"),
    *("asked", "rank", "to_best", "to_best_low", "to_best_high", "p", "run"),
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


def _tables(board: Leaderboard) -> Iterator[str]:
    """Yields each variant's table in Markdown."""
    for table in board.tables:
        head = [f"{board.name} {table.variant}".strip(), *table.tasks]
        head += [f"mean of {len(table.tasks)} tasks"] if len(table.tasks) > 1 else []
        lines = [f"| {' | '.join(map(markdown_cell, head))} |", "|---|" + "---:|" * (len(head) - 1)]
        for row in table.rows:
            cells = [
                f"{entry.metric.shown}, n {entry.metric.denominator:,}{entry.asked and f' ({entry.asked})'}"
                if entry.metric
                else str(entry.state)
                for entry in row.entries
            ]
            if len(table.tasks) > 1:
                cells.append("–" if row.mean is None else f"{100 * row.mean:.1f}")
            lines.append(f"| {' | '.join([markdown_cell(row.model), *cells])} |")
        yield "\n".join(lines)
        if table.contrasts:
            rows = [[*contrast.words, p_value(contrast.pair.adjusted)] for contrast in table.contrasts]
            shown = [f"| {' | '.join(map(markdown_cell, line))} |" for line in [HEAD, *rows]]
            yield "\n".join([shown[0], "|---|---|" + "---:|" * (len(HEAD) - 2), *shown[1:]])
