"""`orchestrator report`: runs as pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lyncean.cli import Command, examples
from orchestrator.cli.folders import ReadRun
from orchestrator.cli.options import refuse, written

if TYPE_CHECKING:
    from orchestrator.run_folder.reader import Run


@click.command(
    cls=Command,
    epilog=examples(
        "orchestrator report runs/first --embed --output first.html",
        "orchestrator report runs/first runs/blind",
        "orchestrator report runs/first --format terminal",
        "orchestrator report runs/warm runs/cold --output trainings.html",
    ),
)
@click.argument("runs", nargs=-1, required=True, type=ReadRun())
@click.option("--format", "form", default="html", show_default=True, help="html or terminal, the results table.")
@click.option("--output", type=click.Path(path_type=Path), help="File to write; default: report.html in each run.")
@click.option("--embed", is_flag=True, help="Embed the images, for a self-contained file.")
@click.option("--compare-published", is_flag=True, help="Show published results beside the run's own.")
@click.option("--json", "as_json", is_flag=True, hidden=True)
def command(
    runs: tuple[Path, ...], form: str, output: Path | None, embed: bool, compare_published: bool, as_json: bool
) -> None:
    """Write the page of each of RUNS, report.html. `orchestrator export` writes other formats.

    The folder of a suite that ran with --checkpoints gets series.html; --output draws several on one axis.
    """
    from orchestrator.extensions import EXPORTS
    from orchestrator.run_folder.reader import open_run
    from orchestrator.suite.training import is_series

    form = "json" if as_json else form
    if form not in ("html", "terminal") and form in EXPORTS.names():
        raise click.UsageError(f"a report is a page: orchestrator export {runs[0]} --format {form}")
    if form not in ("html", "terminal"):
        raise click.UsageError(f"unknown format {form!r}: give html or terminal, or use orchestrator export")
    if form == "terminal":
        refuse(["output", "embed", "compare_published"], "is for the page, --format terminal makes none: leave one out")
    if series := [run for run in runs if is_series(run)]:
        if len(series) < len(runs):
            raise click.UsageError(
                f"{series[0]} is a suite with checkpoints, another is a run: name one kind at a time"
            )
        refuse(["form", "embed", "compare_published"], "is for runs: leave it out for a suite with checkpoints")
        with written(output):
            _series(series, output)
        return
    opened = [open_run(run) for run in runs]
    with written(output):
        if form == "html":
            _html(opened, output, embed, compare_published)
        else:
            from orchestrator.report.terminal import print_results
            from orchestrator.run.console import Terminal

            for run in opened:
                print_results(run.path, Terminal(markup=False))


def _html(runs: Sequence[Run], output: Path | None, embed: bool, published: bool) -> None:
    from orchestrator.report import page, write_report
    from orchestrator.report.blind import twin
    from orchestrator.report.published import unpublished

    if output and len(runs) > 1:
        raise click.UsageError("--output takes one run: without it each run gets its own report.html")
    for run in runs:
        other = twin(run, runs)
        if published and (none := unpublished(run)):
            click.echo(f"{run.name}: no published results of {', '.join(none)}", err=True)
        if output:
            output.write_text(page.render(run, embed=embed, published=published, blind=other), encoding="utf-8")
            if not embed and output.resolve().parent != run.path.resolve():
                click.echo(f"{output} will not find its images, which are in {run.path}: add --embed", err=True)
            click.echo(output)
        else:
            click.echo(write_report(run.path, embed=embed, published=published, blind=other))


def _series(folders: Sequence[Path], output: Path | None) -> None:
    from orchestrator.report import series
    from orchestrator.suite import training

    if output is None:
        for folder in folders:
            click.echo(series.save(training.read(folder), folder))
        return
    trainings = training.named(folders)
    output.write_text(series.render(trainings, series.beside(trainings, output.parent)), encoding="utf-8")
    click.echo(output)
