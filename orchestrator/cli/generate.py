"""`orchestrator generate`: benchmarks that are drawn rather than collected."""

from __future__ import annotations

import click

from lyncean.cli import LazyGroup, examples

COMMANDS = {
    "voila-images": ("orchestrator.cli.generate_voila_images", "All 728 things that a VOILA image shows."),
    "voila": ("orchestrator.cli.generate_voila", "VOILA questions, none twice, as a table in the released form."),
}
"""Subcommand -> its module, and its line in `--help`."""


@click.command(
    cls=LazyGroup,
    modules=COMMANDS,
    epilog=examples(
        "orchestrator generate voila-images --output pictures",
        "orchestrator generate voila --distraction yes --count 1000 --split testing \\",
        "    --images pictures --output voila.parquet",
    ),
)
def command() -> None:
    """Generate the questions or the images of a benchmark."""
