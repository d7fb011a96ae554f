"""`orchestrator report`: runs as pages, tables and files for other tools."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
import orjson

from lyncean.cli import Command, examples
from orchestrator.cli.folders import ReadRun
from orchestrator.cli.options import refuse

if TYPE_CHECKING:
    from orchestrator.run_folder.reader import Run

FORMATS = {
    "html": "an HTML page, report.html in each run folder (default)",
    "terminal": "the results table",
    "md": "metrics as Markdown tables",
    "latex": "metrics as LaTeX tables (booktabs)",
    "json": "the results of all runs",
    "csv": "one row per item",
    "parquet": "one row per item; needs --output",
    "lmms-eval": "the layout that lmms-eval writes; --output is a folder",
    "inspect": "Inspect AI logs for `inspect view`; --output is a folder",
    "wandb": "metrics and the page to Weights & Biases, configured by its environment",
    "mlflow": "metrics and the page to MLflow",
}

_RUN = ReadRun()


@click.command(
    cls=Command,
    help="Report RUNS.\n\n\b\nFormats:\n" + "\n".join(f"  {name:10} {what}" for name, what in FORMATS.items()),
    epilog=examples(
        "orchestrator report runs/first --embed --output first.html",
        "orchestrator report runs/first runs/blind",
        "orchestrator report runs/first runs/second --format latex --output table.tex",
        "orchestrator report runs/first --format csv > items.csv",
    ),
)
@click.argument("runs", nargs=-1, required=True, type=_RUN)
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="html", show_default=True, help="See above."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="File or folder to write; default: the run folder or standard output.",
)
@click.option("--embed", is_flag=True, help="Embed the images, for a self-contained file.")
@click.option("--compare-published", is_flag=True, help="Show published results beside the run's own.")
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
def command(
    runs: tuple[Path, ...], form: str, output: Path | None, embed: bool, compare_published: bool, as_json: bool
) -> None:
    """Report runs; the help is above."""
    from orchestrator.run_folder.reader import open_run

    if as_json and form != "json":
        refuse(["form"], f"{form} contradicts --json: leave one out")
    form = "json" if as_json else form
    if form not in ("html", "inspect"):
        refuse(["embed"], f"puts images into pages and logs, --format {form} makes neither: leave one out")
    if form != "html":
        refuse(["compare_published"], f"is for the page, --format {form} makes none: leave one out")
    if form in ("terminal", "wandb", "mlflow"):
        refuse(["output"], f"names a file or folder, --format {form} writes none: leave one out")
    opened = [open_run(run) for run in runs]
    try:
        if form == "html":
            _html(opened, output, embed, compare_published)
        else:
            _other(form, opened, output, embed)
    except BrokenPipeError:
        # The reader, `head` for example, has what it wanted.
        sys.stderr.close()
    except OSError as error:
        where = error.filename or output or "the standard output"
        raise click.UsageError(f"{where} cannot be written: {error.strerror}") from error


def _html(runs: Sequence[Run], output: Path | None, embed: bool, published: bool) -> None:
    from orchestrator.report import page, write_report
    from orchestrator.report.blind import twin

    if output and len(runs) > 1:
        raise click.UsageError("--output takes one run: without it each run gets its own report.html")
    for run in runs:
        other = twin(run, runs)
        if output:
            output.write_text(page.render(run, embed=embed, published=published, blind=other), encoding="utf-8")
            if not embed and output.resolve().parent != run.path.resolve():
                click.echo(f"{output} will not find its images, which are in {run.path}: add --embed", err=True)
            click.echo(output)
        else:
            click.echo(write_report(run.path, embed=embed, published=published, blind=other))


def _other(form: str, runs: Sequence[Run], output: Path | None, embed: bool) -> None:
    if form in ("parquet", "inspect", "lmms-eval") and output is None:
        raise click.UsageError(f"--format {form} needs --output")
    for run in runs:
        if not run.tasks and form != "terminal":
            click.echo(f"{run.name} is not complete: no metrics yet", err=True)
    if form == "terminal":
        from orchestrator.report.terminal import print_results
        from orchestrator.run.console import Terminal

        for run in runs:
            print_results(run.path, Terminal(markup=False))
    elif form in ("md", "latex"):
        from orchestrator.interop import tables

        with _text(output) as file:
            file.write(tables.markdown(runs) if form == "md" else tables.latex(runs))
    elif form == "json":
        found = [
            {"run": run.name, "path": str(run.path), "manifest": run.manifest, "results": run.results} for run in runs
        ]
        with _text(output) as file:
            file.write(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode() + "\n")
    elif form == "csv":
        from orchestrator.interop import csv_parquet

        with _text(output) as file:
            csv_parquet.write_csv(runs, file)
    elif form in ("wandb", "mlflow"):
        from orchestrator.interop import trackers

        for run in runs:
            click.echo(trackers.to_wandb(run) if form == "wandb" else trackers.to_mlflow(run))
    elif output:
        _files(form, runs, output, embed)


def _files(form: str, runs: Sequence[Run], output: Path, embed: bool) -> None:
    if form == "parquet":
        from orchestrator.interop import csv_parquet

        csv_parquet.write_parquet(runs, output)
        click.echo(output)
    elif form == "inspect":
        from orchestrator.interop import inspect

        for run in runs:
            for path in inspect.write(run, output, embed=embed):
                click.echo(path)
    else:
        from orchestrator.interop import lmms_eval_export

        for run in runs:
            for path in lmms_eval_export.write(run, output):
                click.echo(path)


@contextmanager
def _text(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
    else:
        # newline="" as the csv module asks; everything else writes its own line ends anyway.
        with output.open("w", encoding="utf-8", newline="") as file:
            yield file
