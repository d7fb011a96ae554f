"""Papers' tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from lyncean.errors import printable
from orchestrator.compare.terminal import plain_table
from orchestrator.papers.remade import Cell, Remade, Verdict
from orchestrator.papers.tables import Paper, Table

_BETWEEN = 3
"""Blanks between two columns."""
_COLOURS = {Verdict.AGREES: "green", Verdict.DIFFERS: "red", Verdict.MISSING: "red"}


def listed(papers: Iterable[tuple[str, Paper]]) -> Iterator[tuple[str, Table, str]]:
    """Yields each table with its paper's key, and what it needs or why it is not remade."""
    for key, paper in papers:
        for table in paper.tables:
            if table.same_as:
                yield key, table, f"see table {table.same_as}"
            else:
                yield key, table, f"not remade: {table.why}" if table.why else needed(paper, table)


def needed(paper: Paper, table: Table) -> str:
    """Returns what a table needs: the tasks of its runs, and what else."""
    tasks = ", ".join(dict.fromkeys(paper.runs[name].task for name in table.runs))
    return "; ".join(filter(None, [tasks, table.needs]))


def show_list(papers: Iterable[tuple[str, Paper]], console: Console) -> None:
    """Prints every table with what it needs, by paper."""
    for key, paper in papers:
        table = plain_table(f"{paper.name}: reproduce {key}")
        for name in ("table", "title", "needs"):
            table.add_column(name, overflow="fold")
        for _, one, needs in listed([(key, paper)]):
            table.add_row(one.id, Text(one.title), Text(needs, "dim" if one.why else ""))
        console.print()
        console.print(table)


def show(remade: Remade, console: Console) -> None:
    """Prints the paper's table, ours beside it, what each of our cells says, and the contrasts."""
    table = remade.table
    console.print()
    console.print(Text.assemble((f"{remade.paper.name}, {table.heading}", "bold")))
    if cited := remade.paper.cited(table):
        console.print(Text(cited, "dim"))
    for block in _whole(remade, console.width):
        console.print(block)
    for model, reason in remade.others.items():
        console.print(Text(f"{printable(model)}: {reason}, not the paper's", "yellow"))
    for model, cells in remade.rows.items():
        if any(cell.printed is not None for cell in cells):
            console.print(_beside(model, cells, table.digits))
    if remade.contrasts:
        console.print(_contrasts(remade))
    for line in remade.missing:
        console.print(Text(f"missing: {printable(line)}", "red"))


def _whole(remade: Remade, width: int) -> list[RichTable]:
    """Returns the printed rows and ours, in as many tables as a width takes; more columns than rows become rows."""
    digits, columns = remade.table.digits, [column.name for column in remade.table.columns]
    rows = [[Text(model), *(Text(_number(cell, digits)) for cell in row)] for model, row in remade.table.rows.items()]
    for model, cells in remade.rows.items():
        shown = [_number(cell.value, max(digits, 1)) for cell in cells]
        rows.append([Text(f"ours: {model}{_items(cells)}", "bold"), *(Text(cell, "bold") for cell in shown)])
    lines = [[Text("model"), *map(Text, columns)], *rows]
    if len(columns) > len(rows):
        lines = [list(line) for line in zip(*lines, strict=True)]
    tables = []
    for columns_of_block in _blocks(lines, width):
        table = plain_table()
        for at in (0, *columns_of_block):
            table.add_column(lines[0][at], justify="right" if at else "left", overflow="fold")
        for line in lines[1:]:
            table.add_row(*(line[at] for at in (0, *columns_of_block)))
        tables.append(table)
    return tables


def _blocks(lines: Sequence[Sequence[Text]], width: int) -> list[list[int]]:
    """Returns the columns beside the first in blocks that a width takes without breaking a word."""
    widths = [
        _BETWEEN + max(len(word) for text in column for word in text.plain.split() or [""])
        for column in zip(*lines, strict=True)
    ]
    blocks: list[list[int]] = [[]]
    for at in range(1, len(widths)):
        if blocks[-1] and widths[0] + sum(widths[column] for column in blocks[-1]) + widths[at] > width:
            blocks.append([])
        blocks[-1].append(at)
    return blocks


def _items(cells: Sequence[Cell]) -> str:
    """Returns the items of a row's cells, the fewest and the most, as text; "" if no cell has a number of them."""
    counts = sorted({cell.n for cell in cells if cell.n and cell.value is not None})
    return f", n {'–'.join(f'{count:,}' for count in dict.fromkeys((counts[0], counts[-1])))}" if counts else ""


def _beside(model: str, cells: Sequence[Cell], digits: int) -> RichTable:
    table = plain_table(f"{model}, ours beside the printed cells")
    table.add_column("", overflow="fold")
    for name in ("ours", "95% CI", "n", "printed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for cell in cells:
        interval = "" if cell.low is None or cell.high is None else f"[{cell.low:.1f}, {cell.high:.1f}]"
        table.add_row(
            cell.column,
            _number(cell.value, max(digits, 1)),
            interval,
            f"{cell.n:,}" if cell.n else "",
            _number(cell.printed, digits),
            Text(cell.verdict, _COLOURS.get(cell.verdict, "")),
        )
    return table


def _contrasts(remade: Remade) -> RichTable:
    table = plain_table("the same rows in two runs")
    for name in ("model", "runs", "difference", "n", "printed"):
        table.add_column(name, justify="left" if name in ("model", "runs") else "right", overflow="fold")
    table.add_column("")
    for contrast in remade.contrasts:
        model, runs, _, _, difference, count = contrast.contrast.words
        printed = "–" if contrast.printed is None else f"{contrast.printed:+.{remade.table.digits}f}"
        verdict = Text(contrast.verdict, _COLOURS.get(contrast.verdict, ""))
        table.add_row(model, runs, difference, count, printed, verdict)
    return table


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
