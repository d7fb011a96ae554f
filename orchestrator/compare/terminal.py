"""Prints a comparison on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.compare.flips import words
from orchestrator.compare.gate import FAIL, NOT_SHOWN, PASS, Finding
from orchestrator.compare.result import Comparison, Pairing, Ranking
from orchestrator.compare.statistics import Paired, points
from orchestrator.names import Name

_NUMBERS = 104
"""Columns of a terminal that all numbers of a comparison need next to the names of its tasks."""
_NAMES = 16, 40
"""Least and most columns for the longest word of a task's name."""
_COLOURS = {PASS: "green", FAIL: "bold red", NOT_SHOWN: "yellow"}


def show(comparison: Comparison, console: Console, most_flips: int) -> None:
    """Prints a comparison; fits the console's width."""
    for pairing in comparison.pairings:
        first = comparison.runs[0]
        console.print()
        console.print(Text.assemble((first.name, "bold"), "  →  ", (pairing.second.name, "bold")))
        for run in (first, pairing.second):
            if run.doubt:
                console.print(Text(f"{run.name}, {run.model_name}: {run.doubt}", "yellow"))
        if pairing.caution:
            console.print(Text(f"caution: {pairing.caution}", "yellow"))
        flips = pairing.flips
        longest = max(len(word) for pair in pairing.rows for word in str(pair.step).split())
        wide = _NUMBERS + min(max(longest, _NAMES[0]), _NAMES[1])
        console.print(_pairs(pairing, console.width >= wide))
        if console.width < wide:
            console.print(f"means, detectable changes and tests: in {wide} columns or more", style="dim")
        if pairing.beyond_reach:
            console.print(Text(pairing.beyond_reach, "yellow"))
        console.print(f"of {flips.items:,} items {flips.gained:,} better, {flips.lost:,} worse")
        for change in pairing.facts:
            console.print(Text(change.words))
        _flips(pairing, first.name, console, most_flips)
    if len(comparison.runs) > 2:
        for ranking in comparison.rankings:
            console.print(_ranking(ranking))
    if comparison.standings:
        _standings(comparison, console)
    show_findings(comparison.findings, console)


def show_findings(findings: Sequence[Finding], console: Console) -> None:
    """Prints a line for each finding of a gate."""
    for finding in findings:
        mark = Text(finding.verdict, _COLOURS[finding.verdict])
        console.print(Text.assemble("gate  ", mark, f"  {finding.condition}  {finding.run}  ", (finding.what, "dim")))


def plain_table(title: str | None = None) -> Table:
    """Returns an empty table of the house style."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", title=title, title_justify="left")


def _pairs(pairing: Pairing, wide: bool) -> Table:
    table = plain_table()
    table.add_column("task", overflow="fold")
    numbers = ("first", "second", "difference", "detectable") if wide else ("difference",)
    for name in (*numbers, "n", "better", "worse", pairing.p_name):
        table.add_column(name, justify="right", no_wrap=True)
    if wide:
        table.add_column("test", style="dim")
    for pair in pairing.rows:
        table.add_row(*_cells(pair, wide))
    return table


def _cells(pair: Paired, wide: bool) -> list[str | Text]:
    colour = ("green" if pair.difference > 0 else "red") if pair.significant or pair.regression else ""
    difference = Text(f"{100 * pair.difference:+.1f} {pair.interval}".rstrip(), colour)
    counts = [f"{pair.items:,}", f"{pair.gained:,}", f"{pair.lost:,}", p_value(pair.adjusted)]
    if not wide:
        return [Name(str(pair.step)), difference, *counts]
    means = [f"{100 * mean:.1f}" for mean in (pair.first, pair.second)]
    detectable = "–" if pair.detectable is None else f"±{100 * pair.detectable:.1f}"
    return [Name(str(pair.step)), *means, difference, detectable, *counts, pair.test]


def p_value(p: float | None) -> str:
    """Returns a p-value as in papers, "–" without a test."""
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _flips(pairing: Pairing, first: str, console: Console, most: int) -> None:
    width = max(len(first), len(pairing.second.name))
    for flip in pairing.flips.read(most):
        mark = Text("better", "green") if flip.gained else Text("worse", "red")
        target = f"  target {flip.target}" if flip.target else ""
        console.print()
        console.print(Text.assemble(mark, f" {flip.first.key}", (target, "dim")))
        for name, item in ((first, flip.first), (pairing.second.name, flip.second)):
            read = item.verdict.get("extracted") or item.outcome
            answer = f"{read}  «{' '.join(words(item).split())[:400]}»"
            line = Text.assemble((f"  {name:{width}}  ", "dim"), answer)
            console.print(line, overflow="ellipsis", no_wrap=True)


def _ranking(ranking: Ranking) -> Table:
    table = plain_table(f"{ranking.step}, {ranking.items:,} items of all runs")
    table.add_column("rank", justify="right")
    table.add_column("run", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("rank within 95%", justify="right", no_wrap=True)
    for standing in ranking.places:
        score = f"{100 * standing.score:.1f} {points(standing.low, standing.high)}".rstrip()
        ranks = str(standing.best) if standing.best == standing.worst else f"{standing.best}–{standing.worst}"
        table.add_row(str(standing.rank), Name(standing.name), score, ranks)
    return table


def _standings(comparison: Comparison, console: Console) -> None:
    """Prints ReForm-Eval's dimensions, one per row: every run's mean and, in parentheses, its rank."""
    table = plain_table("ReForm-Eval: means over datasets (ranks)")
    table.add_column("dimension")
    for name in comparison.standings:
        table.add_column(name, justify="right", overflow="fold")
    for row in comparison.dimension_rows:
        table.add_row(row.name, *(f"{mean} ({rank})" if rank else mean for mean, rank in row.cells))
    console.print(table)
    for name, one in comparison.standings.items():
        if one.missing:
            console.print(Text(f"{name} lacks {', '.join(one.missing)}: their means are left out", "yellow"))
