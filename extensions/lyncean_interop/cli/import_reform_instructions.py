"""`orchestrator import reform-instructions`: the instruction files of a ReForm-Eval checkout."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lyncean.cli import Command
from orchestrator.cli import written


@click.command("reform-instructions", cls=Command)
@click.argument("checkout", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
def command(checkout: Path, output: Path) -> None:
    """Read the instruction texts of a ReForm-Eval CHECKOUT for `--set instructions=FILE`."""
    from lyncean_interop.reform_instructions import collect
    from orchestrator.benchmarks.reform import FORMAT

    datasets, missing = collect(checkout)
    text = json.dumps({"format": FORMAT, "datasets": datasets}, indent=1, ensure_ascii=False) + "\n"
    with written(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, "utf-8")
    click.echo(f"{output}: instructions of {len(datasets)} datasets", err=True)
    if missing:
        click.echo(f"not found: {', '.join(missing)}; our own texts are used for these", err=True)
