"""A suite's leaderboard on a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.compare import leaderboard
from orchestrator.compare.contrasts import HEAD
from orchestrator.compare.leaderboard import Entry, Leaderboard, not_complete
from orchestrator.compare.terminal import p_value, plain_table, show_findings
from orchestrator.names import Name
from orchestrator.run_folder.metrics import accounting, answered_results, counts, headlines
from orchestrator.run_folder.reader import open_run
from orchestrator.run_folder.validity import lines


def show(board: Leaderboard, console: Console) -> None:
    """Prints each task's ranking, the gate, the incomplete cells and the leaderboard."""
    for table in board.tables:
        for task, metric in table.tasks.items():
            console.print(_ranking(f"{task}: {metric or 'no metric yet'}", table.variant, table.column(task)))
            for entry in table.column(task):
                if entry.asked:
                    console.print(Text(f"  {entry.model}: {entry.asked}", "yellow"))
    for table in board.tables:
        console.print(_matrix(board.name, table))
        if table.contrasts:
            console.print(_contrasts(table))
        for line in table.cautions:
            console.print(Text(f"caution: {line}", "yellow"))
    show_findings(board.findings, console)
    for line in board.unjudged:
        console.print(Text(f"gate  {line}", "yellow"))
    for name, state, why in not_complete(board):
        console.print(Text(f"{name}: {state}{f': {why}' if why else ''}", "red"), soft_wrap=True)


def show_headlines(run: Path, console: Console) -> None:
    """Prints a line with the first metric of each task of a complete run, and the accounting."""
    opened = open_run(run)
    for task, metric in headlines(answered_results(opened.tasks)).items():
        console.print(f"{task}: {metric.name} {metric.shown}, n {metric.denominator:,}", highlight=False)
    for void in (True, False):
        for line in lines(opened.tasks, void=void):
            console.print(line, style="bold red" if void else "yellow", highlight=False, soft_wrap=True)
    console.print(accounting(counts(opened.tasks)), style="dim", highlight=False)


def _ranking(title: str, variant: str, entries: list[Entry]) -> Table:
    table = plain_table(f"{title}, {variant}" if variant else title)
    table.add_column("rank", justify="right")
    table.add_column("model", overflow="fold")
    for name in ("score", "n", "to the best", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        metric, pair = entry.metric, entry.to_best
        shown = Text(entry.shown if metric is None else metric.shown, "red" if metric is None else "")
        table.add_row(
            str(entry.place.rank) if entry.place else "–",
            Name(entry.model),
            shown,
            f"{metric.denominator:,}" if metric else "",
            f"{100 * pair.difference:+.1f} {pair.interval}".rstrip() if pair else "",
            p_value(pair.adjusted) if pair else "",
        )
    return table


def _matrix(name: str, board: leaderboard.Table) -> Table:
    table = plain_table(f"{name}, {board.variant}" if board.variant else name)
    table.add_column("model", overflow="fold")
    for task in board.tasks:
        table.add_column(task, justify="right", overflow="fold")
    several = len(board.tasks) > 1
    if several:
        table.add_column(f"mean of {len(board.tasks)} tasks", justify="right")
    for row in board.rows:
        cells = [
            Text(entry.shown, "red" if entry.metric is None else "bold" if entry.best else "") for entry in row.entries
        ]
        mean = [Text("–" if row.mean is None else f"{100 * row.mean:.1f}")] if several else []
        table.add_row(Name(row.model), *cells, *mean)
    return table


def _contrasts(board: leaderboard.Table) -> Table:
    """Returns tasks that are variants of one benchmark, item by item."""
    table = plain_table("the same rows in two tasks")
    for name in HEAD:
        table.add_column(name, justify="left" if name in HEAD[:2] else "right", overflow="fold")
    for contrast in board.contrasts:
        table.add_row(*contrast.words, p_value(contrast.pair.adjusted))
    return table
