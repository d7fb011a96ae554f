"""`orchestrator export`: results and items in the formats of other tools."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from lyncean.cli import Command, examples
from lyncean.plugins.registry import PluginError
from orchestrator.cli.folders import ReadRun
from orchestrator.cli.options import refuse, written
from orchestrator.extensions import EXPORTS, Format

if TYPE_CHECKING:
    from orchestrator.run_folder.reader import Run


class _FormatName(click.Choice[str]):
    """Our formats, which `--help` lists, or one of another package."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns a name; other packages are looked through for a name that is not ours."""
        if value not in self.choices and value in EXPORTS.others():
            return str(value)
        if value not in self.choices and value in EXPORTS:
            self.fail(str(EXPORTS.unknown(value)), param, ctx)
        return super().convert(value, param, ctx)


class _Export(Command):
    """Lists the formats of other packages after ours."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the help, with every format that is installed."""
        lines = [f"  {name:16} {_line(name)}" for name in EXPORTS.names()]
        self.help = "\n".join(("Export RUNS in another tool's format.\n\n\b\nFormats:", *lines))
        super().format_help_text(ctx, formatter)


def _line(name: str) -> str:
    try:
        return EXPORTS.get(name).line
    except PluginError as error:
        return str(error)


@click.command(
    cls=_Export,
    epilog=examples(
        "orchestrator export runs/first runs/second --format latex --output table.tex",
        "orchestrator export runs/first --format csv > items.csv",
        "orchestrator export runs/first --format every-eval-ever --output published",
        "orchestrator export runs/first --format eval-results --about dataset=lmms-lab/vstar-bench",
        "orchestrator export runs/training --format wandb",
    ),
)
@click.argument("runs", nargs=-1, required=True, type=ReadRun())
@click.option("--format", "form", type=_FormatName(EXPORTS.ours()), required=True, help="See above.")
@click.option("--output", type=click.Path(path_type=Path), help="File or folder to write; default: standard output.")
@click.option("--embed", is_flag=True, help="Put the images into Inspect's logs.")
@click.option(
    "--about",
    multiple=True,
    metavar="NAME=VALUE",
    help="What a run does not know of itself: organization, relationship, model, deployment, availability (every-eval-"
    "ever); dataset, task, source (eval-results).",
)
def command(runs: tuple[Path, ...], form: str, output: Path | None, embed: bool, about: tuple[str, ...]) -> None:
    """Export runs; the help is above."""
    from orchestrator.run_folder.reader import open_run
    from orchestrator.suite.training import evaluated, is_series

    chosen = EXPORTS.get(form)
    for option in ("embed", "about"):
        if option not in chosen.options:
            refuse([option], f"has no meaning for --format {form}: leave one out")
    if chosen.writes == "service":
        refuse(["output"], f"names a file or folder, --format {form} writes none: leave one out")
    if chosen.writes in ("file", "folder") and output is None:
        raise click.UsageError(f"--format {form} needs --output")
    if series := [run for run in runs if is_series(run)]:
        if not chosen.series:
            raise click.UsageError(f"{series[0]} is a suite with checkpoints: --format {form} takes the runs in it")
        for folder in series:
            click.echo(_function(chosen.series)(evaluated(folder)))
    opened = [open_run(run) for run in runs if run not in series]
    for run in opened:
        if not run.tasks:
            click.echo(f"{run.name} is not complete: no metrics yet", err=True)
    more = {option: {"embed": embed, "about": about}[option] for option in chosen.options}
    with written(output):
        _write(chosen, opened, output, more)


def _write(chosen: Format, runs: Sequence[Run], output: Path | None, more: dict[str, Any]) -> None:
    write = _function(chosen.writer)
    if chosen.writes == "text":
        with _text(output) as file:
            write(runs, file, **more)
    elif chosen.writes == "file":
        write(runs, output)
        click.echo(output)
    elif chosen.writes == "folder":
        for run in runs:
            for path in write(run, output, **more):
                click.echo(path)
    else:
        for run in runs:
            click.echo(write(run))


def _function(location: str) -> Any:
    module, _, name = location.partition(":")
    return getattr(importlib.import_module(module), name)


@contextmanager
def _text(output: Path | None) -> Iterator[TextIO]:
    """Yields where a text goes; a file only once all of it could be made."""
    if output is None:
        yield sys.stdout
        return
    regular = output.is_file() or not output.exists()
    path = output.with_name(f"{output.name}.partial") if regular else output
    try:
        # newline="" as the csv module asks; everything else writes its own line ends anyway.
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        if regular:
            path.replace(output)
    finally:
        if regular:
            path.unlink(missing_ok=True)
