"""`orchestrator label`: people's labels of a sample of a run's answers."""

from __future__ import annotations

import getpass
from functools import partial
from pathlib import Path

import click

from lyncean.cli import Command, examples
from orchestrator.cli.folders import RunFolder
from orchestrator.cli.options import number
from orchestrator.cli.serving import page_options, serve_page


@click.command(
    cls=Command,
    epilog=examples(
        "orchestrator label runs/first",
        "orchestrator label runs/first --task voila_nd --n 200 --as ann",
        "orchestrator label runs/first --kinds perception,reasoning,refusal",
    ),
)
@click.argument("run", type=RunFolder(exists=True))
@click.option("--task", help="Task to label; needed if the run has several.")
@number("--n", "count", default=100, show_default=True, type=click.IntRange(1), help="Items to label.")
@click.option("--as", "person", metavar="NAME", help="Who labels; default: the login name.")
@number("--seed", type=click.IntRange(0), help="Seed of the sample; default: 0, or that of earlier labels.")
@click.option("--kinds", metavar="A,B,...", help="Kinds of error: of a wrong answer one is chosen, by its digit.")
@page_options(7481)
def command(
    run: Path,
    task: str | None,
    count: int,
    person: str | None,
    seed: int | None,
    kinds: str | None,
    port: int,
    open_it: bool,
) -> None:
    """Label a random sample of the answers of RUN in a browser.

    The page is served on 127.0.0.1 only and hides the verdicts. Labels are stored in RUN, the same command goes on
    where it was left, and `orchestrator report` shows what labels and verdicts say together.
    """
    from orchestrator.report.labels import FEWEST
    from orchestrator.report.live.labelling import Sheet, serve
    from orchestrator.run_folder.reader import open_run

    person = _login() if person is None else person
    if not _is_name(person):
        raise click.UsageError("--as is a name of 1 to 64 printable characters")
    named = [] if kinds is None else [kind.strip() for kind in kinds.split(",")]
    if kinds is not None and not (1 < len(set(named)) == len(named) < 10 and all(map(_is_name, named))):
        raise click.UsageError("--kinds takes two to nine different names of up to 64 printable characters: A,B,C")
    opened = open_run(run)
    if not opened.tasks:
        raise click.UsageError(f"{run} is not complete: run its command again first")
    if task is None and len(opened.tasks) > 1:
        raise click.UsageError(f"{run} has several tasks: give --task, one of {', '.join(opened.tasks)}")
    task = next(iter(opened.tasks)) if task is None else task
    if task not in opened.tasks:
        raise click.UsageError(f"{run} has no task {task!r}: give one of {', '.join(opened.tasks)}")
    sheet = Sheet(opened, task, count, person.strip(), seed, named)
    serve_page(partial(serve, sheet), port, open_it=open_it)
    then = (
        f"orchestrator report {run} --format terminal" if len(sheet.marks) >= FEWEST else f"{FEWEST} give an estimate"
    )
    click.echo(f"{len(sheet.marks):,} of {len(sheet.keys):,} labelled; {then}")


def _is_name(text: str) -> bool:
    return text.isprintable() and 0 < len(text.strip()) <= 64


def _login() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError) as error:  # a container's user without a name
        raise click.UsageError("there is no login name: give --as NAME") from error
