"""`--suite FILE --dry-run`: the requests and the largest cost of every cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from orchestrator.compare.terminal import plain_table
from orchestrator.run.dry_run import Size, measure
from orchestrator.suite.run import PlannedCell

_COLUMNS = ("items", "calls", "images")


def describe(planned: Sequence[PlannedCell], console: Console) -> None:
    """Prints a row for each cell, and their totals.

    Raises:
        DataError: If data cannot be read.
    """
    sizes: dict[int, Size] = {}  # cells of the same tasks and options share a plan, with any model
    total: Counter[str] = Counter()
    table = plain_table()
    table.add_column("cell", overflow="fold")
    for name in ("items", "requests", "images", "text tokens", "output tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for planned_cell in planned:
        key = id(planned_cell.plan.tasks)
        size = sizes[key] = sizes.get(key) or measure(planned_cell.plan)
        total.update(size.total)
        total["tokens"] += size.input_tokens
        table.add_row(planned_cell.cell.name, *_cells(size.total, size.input_tokens))
    table.add_section()
    table.add_row(f"{len(planned)} cells", *_cells(total, total["tokens"]))
    console.print(table)
    console.print(
        "text tokens: of the first turns, about, images left out; output tokens: at most", style="dim", soft_wrap=True
    )
    if total["rejected"]:
        console.print(f"{total['rejected']:,} rows cannot be asked and will be rejected")


def _cells(total: Counter[str], tokens: int) -> list[str]:
    output = f"{total['output']:,}" if total["output"] or not total["unbounded"] else "?"
    unbounded = f" + {total['unbounded']:,} calls without a bound" if total["unbounded"] and total["output"] else ""
    return [*(f"{total[name]:,}" for name in _COLUMNS), f"~{tokens:,}", output + unbounded]
