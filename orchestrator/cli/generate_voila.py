"""`orchestrator generate voila`: VOILA questions over a folder of images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lyncean.cli import Command
from orchestrator.cli.options import request_options

if TYPE_CHECKING:
    from orchestrator.benchmarks.voila.generator import Line


@click.command("voila", cls=Command)
@click.option("--distraction", type=click.Choice(["yes", "no"]), required=True, help="All 19 rules, or the 7 without.")
@click.option(
    "--count", type=click.IntRange(min=1), required=True, help="Number of questions, distributed over the rules."
)
@click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Folder of images named {number}_{subject}_{action}_{n}.png.",
)
@click.option(
    "--split",
    type=click.Choice(["training", "testing"]),
    required=True,
    help="training: images used evenly, a fourth image as answer; testing: one image for each thing shown.",
)
@click.option("--collage", is_flag=True, help="Also draw each question as one picture, in Image_Questions/.")
@request_options("seed", seed={"help": "The same seed draws the same questions."})
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="A .csv or .parquet file; overwritten.",
)
def command(distraction: str, count: int, images: Path, split: str, collage: bool, seed: int, output: Path) -> None:
    """Draw distinct VOILA questions and write them as a table in the released format.

    Beside it, OUTPUT.croissant.json describes it in Croissant 1.0, for registries and loaders of data sets.
    """
    from orchestrator.benchmarks.voila import generator
    from orchestrator.benchmarks.voila.croissant import write_croissant
    from orchestrator.benchmarks.voila.images import ImageFolder, TrainingDraw
    from orchestrator.benchmarks.voila.rules import ND_RULES, WD_RULES
    from orchestrator.benchmarks.voila.sampling import SpaceError, shares

    if output.suffix not in (".csv", ".parquet"):
        raise click.UsageError(f"--output {output} should end in .csv or .parquet")
    rules = WD_RULES if distraction == "yes" else ND_RULES
    try:
        counts = shares(rules, count)
        folder = ImageFolder(images)
        pick = TrainingDraw(folder, seed) if split == "training" else folder.first
        output.parent.mkdir(parents=True, exist_ok=True)
        rows = generator.lines(counts, seed=seed, pick=pick, training=split == "training")
        with ExitStack() as stack:
            if collage:
                rows = stack.enter_context(generator.collages(output, folder))(rows)
            generator.write_table(output, _with_bar(rows, count))
        drawn = f"{count:,} questions, {_in_words(counts)}; split {split}, distraction {distraction}, seed {seed}."
        described = write_croissant(output, images=images, training=split == "training", collage=collage, drawn=drawn)
    except SpaceError as error:
        raise click.UsageError(f"--count {count} with --distraction {distraction}: {error}") from error
    except OSError as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"{output}: {count:,} questions, {_in_words(counts)}")
    click.echo(f"{described}: its description in Croissant 1.0")


def _with_bar(rows: Iterable[Line], count: int) -> Iterator[Line]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from orchestrator.run.console import Terminal

    columns = (TextColumn("questions"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task("questions", total=count)
        for number, row in enumerate(rows, 1):
            yield row
            if number % 1024 == 0:
                progress.update(task, completed=number)


def _in_words(counts: dict[int, int]) -> str:
    least = min(counts.values())
    more = [str(rule) for rule, count in counts.items() if count > least]
    least_of_all = f"{least:,} for each of {len(counts)} rules"
    if not more:
        return least_of_all
    return f"{least_of_all}, and one more for {'rule' if len(more) == 1 else 'rules'} {', '.join(more)}"
