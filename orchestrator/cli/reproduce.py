"""`orchestrator reproduce`: tables of the benchmarks' papers, remade beside the printed ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from lyncean.cli import Command, examples
from lyncean.cli.options import client_options
from lyncean.rpc import Credentials
from orchestrator.cli.options import run_to_end

if TYPE_CHECKING:
    from rich.console import Console

    from orchestrator.papers.tables import Paper, Table

INCOMPLETE = 3
"""Exit code where a cell is missing."""


@click.command(
    "reproduce",
    cls=Command,
    epilog=examples(
        "orchestrator reproduce --list",
        "orchestrator reproduce marvel --table 3 --models models.yaml",
        "orchestrator reproduce 2312.14135 --table 1",
    ),
)
@click.argument("paper", required=False)
@click.option("--table", "tables", multiple=True, metavar="ID", help="Table, figure or ablation; repeatable.")
@click.option("--list", "only_list", is_flag=True, help="List the tables with what each needs.")
@click.option(
    "--models", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Models to run: a suite's YAML."
)
@click.option(
    "--run", "folder", type=click.Path(file_okay=False, path_type=Path), help="Folder; default: runs/reproduce-PAPER."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, progress on stderr.")
@client_options
def command(
    paper: str | None,
    tables: tuple[str, ...],
    only_list: bool,
    models: Path | None,
    folder: Path | None,
    as_json: bool,
    credentials: Credentials,
) -> None:
    """Remake tables of PAPER: marvel, its arXiv number, or a file with its text.

    Without --models it says what a table needs and shows what was run before. The same command resumes.

    Exit codes: 0 every cell is there, 2 usage or configuration, 3 a cell is missing.
    """
    from orchestrator.papers import terminal
    from orchestrator.papers.remade import remake
    from orchestrator.papers.suites import runs_of
    from orchestrator.papers.tables import find_paper, papers
    from orchestrator.run.console import Terminal

    console = Terminal(stderr=as_json, markup=False)
    chosen = find_paper(paper) if paper is not None else ""
    if only_list:
        terminal.show_list([(key, one) for key, one in papers().items() if chosen in ("", key)], Terminal(markup=False))
        return
    if not chosen:
        raise click.UsageError("name a paper, or give --list: the tables of all of them")
    chosen_paper = papers()[chosen]
    wanted = [chosen_paper.table(name) for name in tables] or [table for table in chosen_paper.tables if table.runs]
    for table in wanted:
        if table.why:
            raise click.UsageError(f"--table {table.id} is not remade: {table.why}")
    folder = folder or Path("runs") / f"reproduce-{chosen}"
    broken = _run(chosen_paper, wanted, models, folder, credentials, console) if models else []
    remade = [remake(chosen_paper, table, runs_of(chosen_paper, table.runs, folder)) for table in wanted]
    for one in remade:
        if not as_json:
            terminal.show(one, console)
            if not models and one.missing:
                console.print(
                    f"it needs {terminal.needed(chosen_paper, one.table)}, and --models FILE", highlight=False
                )
    if as_json:
        click.echo(orjson.dumps([one.as_json() for one in remade], option=orjson.OPT_INDENT_2))
    for line in broken:
        click.echo(f"Error: {line}", err=True)
    if broken or any(one.missing for one in remade):
        raise SystemExit(INCOMPLETE)


def _run(
    paper: Paper, tables: Sequence[Table], models: Path, folder: Path, credentials: Credentials, console: Console
) -> list[str]:
    """Runs the suites of some tables, and returns why one could not be run; the others are."""
    from lyncean.errors import UserError
    from orchestrator.papers.suites import ModelsFile, write_suites
    from orchestrator.suite import run as suites
    from orchestrator.suite.file import read

    names = dict.fromkeys(name for table in tables for name in table.runs)
    broken = []
    for task, file in write_suites(paper, names, ModelsFile.read(models), folder).items():
        try:
            run_to_end(suites.run(read(file, credentials), file.parent, console))
        except UserError as error:
            broken.append(f"{task} was not run: {error}")
    return broken
