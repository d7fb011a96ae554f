"""The results of a run as a table on a terminal."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.report.figures import Figure, accounting, counts, figures, overall, slices
from orchestrator.report.run import open_run

NARROW = 76
"""Below this width the table keeps the value, its interval and what it was divided by."""


def print_results(run: Path, console: Console) -> None:
    """Prints the figures of a run with intervals and denominators, and the accounting beneath.

    Fits the console's width. Without a terminal there is neither colour nor a line drawn twice.

    Raises:
        click.UsageError: There is no run at `run`.
    """
    opened = open_run(run)
    if not opened.tasks:
        console.print(f"{opened.name}: no results yet")
        return
    found = list(figures(opened.tasks))
    tables = slices(found)
    for task, result in opened.tasks.items():
        console.print()
        console.print(Text.assemble((task, "bold"), ("  " + opened.model_name, "dim")))
        mine = [figure for figure in overall(found) if figure.task == task]
        console.print(_table(mine, console.width < NARROW))
        for (owner, name, labels), rows in tables.items():
            if owner == task and len(labels) == 1 and len(rows) <= 12 and console.width >= NARROW:
                console.print(_slices(name, labels[0], rows, console.width))
        console.print(_accounting(counts({task: result})))
    console.print()


def _table(rows: list[Figure], narrow: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", expand=False)
    table.add_column("figure", overflow="fold")
    table.add_column("over planned", justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    if not narrow:
        table.add_column("over answered", justify="right", no_wrap=True)
        table.add_column("n", justify="right", no_wrap=True)
        table.add_column("", style="dim", no_wrap=True)
    for row in rows:
        cells = [Text(row.name), _value(row), Text(f"{row.denominator:,}", "dim")]
        if not narrow:
            same = row.denominator == row.denominator_answered and row.value == row.answered
            cells += [
                Text(row.text(row.answered), "dim" if same else ""),
                Text(f"{row.denominator_answered:,}", "dim"),
                Text(f"{row.suffix} {f'{row.level:.0%} {row.method}' if row.level else ''}".strip()),
            ]
        table.add_row(*cells)
    return table


def _value(row: Figure) -> Text:
    return Text.assemble((row.text(row.value), "bold"), " ", (f"{row.interval:>12}", "dim"))


def _slices(name: str, label: str, rows: list[Figure], width: int) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(width=min(34, width // 3), no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_row(Text(f"{name} by {label}", "dim"), "", "")
    for row in rows:
        table.add_row(Text("  " + row.slice), _value(row), f"{row.denominator:,}")
    return table


_COLOURS = {"failed": "red", "rejected": "yellow", "unjudged": "yellow", "unparsed": "yellow"}


def _accounting(total: dict[str, int]) -> Text:
    line = Text(accounting(total))
    for outcome, colour in _COLOURS.items():
        if total[outcome]:
            line.highlight_words([f"{total[outcome]:,} {outcome}"], colour)
    return line
