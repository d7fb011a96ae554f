"""`orchestrator generate`: benchmarks that are drawn rather than collected."""

from __future__ import annotations

import click

from lyncean.cli import LazyGroup, examples

COMMANDS = {
    "voila-images": ("orchestrator.cli.generate_voila_images", "Draw the 728 images that VOILA questions consist of."),
    "voila": ("orchestrator.cli.generate_voila", "Draw distinct VOILA questions, in the released format."),
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
    """Generate the questions or images of a benchmark."""
