"""`orchestrator export`: results and items in the formats of other tools."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from lyncean.cli import Command, examples
from orchestrator.cli.folders import ReadRun
from orchestrator.cli.options import refuse, written

if TYPE_CHECKING:
    from orchestrator.run_folder.reader import Run


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        line: Its line in `--help`.
        writer: Function of `orchestrator.interop` that writes it, `module:name`.
        writes: "text" (of all runs, to a file or standard output), "file" or "folder" (which `--output` names),
            "service" (which the environment names).
        options: Options that it takes.
    """

    line: str
    writer: str
    writes: Literal["text", "file", "folder", "service"]
    options: tuple[str, ...] = ()


FORMATS = {
    "md": Format("metrics as Markdown tables, one column a run", "tables:write_markdown", "text"),
    "latex": Format("metrics as LaTeX tables (booktabs)", "tables:write_latex", "text"),
    "model-card": Format("a Markdown table for a model card", "tables:write_model_card", "text"),
    "json": Format("manifests and results", "tables:write_json", "text"),
    "csv": Format("one row per item", "csv_parquet:write_csv", "text"),
    "parquet": Format("one row per item; needs --output", "csv_parquet:write_parquet", "file"),
    "items": Format("scores of runs by item, for `eval --share --items`; needs --output", "item_scores:write", "file"),
    "junit": Format("JUnit XML for CI, one test case per item", "junit:write", "text"),
    "eval-results": Format(
        "Hugging Face's .eval_results (YAML), for publication", "eval_results:write", "text", ("about",)
    ),
    "every-eval-ever": Format(
        "Every Eval Ever 0.3.0, results and items; needs --output", "every_eval_ever:write", "folder", ("about",)
    ),
    "lmms-eval": Format("the layout that lmms-eval writes; needs --output", "lmms_eval_export:write", "folder"),
    "inspect": Format("Inspect AI logs for `inspect view`; needs --output", "inspect:write", "folder", ("embed",)),
    "opentelemetry": Format("gen_ai spans and evaluation events, to an OTLP endpoint", "opentelemetry:send", "service"),
    "wandb": Format("metrics and the page to Weights & Biases", "trackers:to_wandb", "service"),
    "mlflow": Format("metrics and the page to MLflow", "trackers:to_mlflow", "service"),
}
"""Name of a format -> what it is. Services are configured by their own environment."""


@click.command(
    cls=Command,
    help="Export RUNS in another tool's format.\n\n\b\nFormats:\n"
    + "\n".join(f"  {name:16} {form.line}" for name, form in FORMATS.items()),
    epilog=examples(
        "orchestrator export runs/first runs/second --format latex --output table.tex",
        "orchestrator export runs/first --format csv > items.csv",
        "orchestrator export runs/first --format every-eval-ever --output published",
        "orchestrator export runs/first --format eval-results --about dataset=lmms-lab/vstar-bench",
    ),
)
@click.argument("runs", nargs=-1, required=True, type=ReadRun())
@click.option("--format", "form", type=click.Choice(list(FORMATS)), required=True, help="See above.")
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

    chosen = FORMATS[form]
    for option in ("embed", "about"):
        if option not in chosen.options:
            refuse([option], f"has no meaning for --format {form}: leave one out")
    if chosen.writes == "service":
        refuse(["output"], f"names a file or folder, --format {form} writes none: leave one out")
    if chosen.writes in ("file", "folder") and output is None:
        raise click.UsageError(f"--format {form} needs --output")
    opened = [open_run(run) for run in runs]
    for run in opened:
        if not run.tasks:
            click.echo(f"{run.name} is not complete: no metrics yet", err=True)
    more = {option: {"embed": embed, "about": about}[option] for option in chosen.options}
    with written(output):
        _write(chosen, opened, output, more)


def _write(chosen: Format, runs: Sequence[Run], output: Path | None, more: dict[str, Any]) -> None:
    module, _, name = chosen.writer.partition(":")
    write = getattr(importlib.import_module(f"orchestrator.interop.{module}"), name)
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
