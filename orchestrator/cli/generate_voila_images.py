"""`orchestrator generate voila-images`: drawn images to stand in for the published ones."""

from __future__ import annotations

from pathlib import Path

import click

from lyncean.cli import Command
from orchestrator.cli.options import written


@click.command("voila-images", cls=Command)
@click.option("--variants", type=click.IntRange(1, 100), default=1, show_default=True, help="Drawings of each thing.")
@click.option("--size", type=click.IntRange(64, 1024), default=384, show_default=True, help="Width and height.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to fill.")
def command(variants: int, size: int, output: Path) -> None:
    """Draw all 728 things that a VOILA image shows, as pictograms."""
    from orchestrator.benchmarks.voila.synthetic import draw
    from orchestrator.benchmarks.voila.texts import SPECS, file_prefix

    with written(output):
        output.mkdir(parents=True, exist_ok=True)
        for spec in SPECS:
            for variant in range(variants):
                (output / f"{file_prefix(spec)}{variant}.png").write_bytes(draw(spec, variant, size))
    click.echo(f"{output}: {len(SPECS) * variants:,} images")
