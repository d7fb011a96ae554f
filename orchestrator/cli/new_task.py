"""`orchestrator new-task`: a task file from a data file, by looking at it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lyncean.cli import Command, examples
from orchestrator.cli.options import written


@click.command(
    "new-task",
    cls=Command,
    epilog=examples(
        "orchestrator new-task animals.csv --output animals.yaml",
        "orchestrator prompts --task animals.yaml --limit 2",
    ),
)
@click.argument("data")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Task file; default: DATA's name with .yaml.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(data: str, output: Path | None, force: bool) -> None:
    """Write a task file for DATA: a CSV, JSONL, JSON or parquet file, a folder, or a hub id.

    Prints what was inferred. Check the file, then run `orchestrator prompts --task FILE`.
    """
    import yaml

    from orchestrator.benchmarks.registry import TASK_FILES
    from orchestrator.benchmarks.taskfile import load
    from orchestrator.benchmarks.taskfile.guessing import guess

    output = output or Path(f"{Path(data).stem.split('@')[0]}.yaml")
    if not output.name.endswith(TASK_FILES):
        raise click.UsageError(f"--output {output}: a task file ends in {' or '.join(TASK_FILES)}")
    if output.exists() and not force:
        raise click.UsageError(f"{output} is there already; --force writes over it, --output names another")
    with written(output):
        guessed = guess(data)
        if Path(data).exists():
            guessed.values["data"] = os.path.relpath(data, output.parent)
        text = yaml.safe_dump(guessed.values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=1000)
        output.write_text(text, encoding="utf-8")
        benchmark = load(output)
        rows = benchmark.rows(benchmark.name, None)
    for reason in guessed.reasons:
        click.echo(f"  {reason}")
    count = f"{rows.count:,} {'row' if rows.count == 1 else 'rows'}" if rows.count is not None else "rows"
    click.echo(f"{output}: {count}; look at it, then: orchestrator prompts --task {output} --limit 2")
