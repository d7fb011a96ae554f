"""`orchestrator compare`: runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
import orjson

from lyncean.cli import Command, examples
from orchestrator.cli.folders import ReadRun
from orchestrator.cli.options import match_option, refuse, written

GATE_FAILED = 4
"""Exit code where a condition of the gate is not met."""
GATE_NOT_SHOWN = 5
"""Exit code where no condition failed, but the items are too few to show one of them."""


@click.command(
    "compare",
    cls=Command,
    epilog=examples(
        "orchestrator compare runs/first runs/second --html compare.html",
        "orchestrator compare runs/first runs/second --gate 'acc>=0.6,change.low>=-2%,failed<=1%'",
    ),
)
@click.argument("runs", nargs=-1, required=True, type=ReadRun())
@click.option(
    "--gate",
    "gate_text",
    metavar="CONDITIONS",
    help="Conditions, for example 'acc>=0.6,no_regression'; exit code 4 if one fails, 5 if the items cannot show one.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the comparison as an HTML page, flips included.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option(
    "--flips",
    default=3,
    show_default=True,
    type=click.IntRange(0),
    help="Number of regressed items to print, and of improved ones.",
)
@click.option(
    "--html-flips", default=1000, show_default=True, type=click.IntRange(0), help="The same for the HTML page."
)
@click.option("--embed", is_flag=True, help="Embed the images in the HTML page, for a self-contained file.")
@match_option
@click.option("--other-data", is_flag=True, help="Also compare runs whose keys name different questions.")
def command(
    runs: tuple[Path, ...],
    gate_text: str | None,
    html: Path | None,
    as_json: bool,
    flips: int,
    html_flips: int,
    embed: bool,
    match: Literal["key", "row"] | None,
    other_data: bool,
) -> None:
    """Compare RUNS with the first of them, the baseline.

    Items are paired by key, those of two tasks of one benchmark by row. A single run can be checked with --gate.

    Exit codes: 0 compared and the gate, if any, passed; 2 the runs do not fit together or the
    gate names what they do not have; 4 the gate failed; 5 nothing failed, but the items are too few
    to show one of its conditions.
    """
    from orchestrator.compare import gate, result, terminal
    from orchestrator.run.console import Terminal

    if len(runs) < 2 and gate_text is None:
        raise click.UsageError("give two runs or more, or one run and a --gate")
    if html is None:
        refuse(["html_flips", "embed"], "is for the page: give --html FILE, or leave it out")
    conditions = [] if gate_text is None else gate.parse(gate_text)
    compared = result.compare(runs, conditions, other_data=other_data, match=match)
    if html:
        from orchestrator.report import comparison

        page = comparison.render(compared, comparison.beside(compared, html.parent), html_flips, embed=embed)
        with written(html):
            html.write_text(page, encoding="utf-8")
    if as_json:
        click.echo(orjson.dumps(compared.as_json(), option=orjson.OPT_INDENT_2))
    else:
        terminal.show(compared, Terminal(markup=False), flips)
    if not compared.passed:
        raise SystemExit(GATE_FAILED if compared.verdict == gate.FAIL else GATE_NOT_SHOWN)
