"""`scorer score`: requests from a file, verdicts to stdout, without a service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, BinaryIO

import click

from lyncean.cli import Command
from scorer.cli.options import foreign_options, judge_options, rule_options

if TYPE_CHECKING:
    from scorer.foreign_tasks import ForeignTasks
    from scorer.judges.options import Judging
    from scorer.registry import Registry
    from scorer.rule import AnyRule


@click.command("score", cls=Command)
@click.argument("file", type=click.File("rb"))
@click.option(
    "--metrics",
    "metric_specs",
    type=click.File("rb"),
    help='JSON list of MetricSpec; the last line of the output is then {"summary": ...}.',
)
@rule_options
@judge_options
@foreign_options
def command(
    file: BinaryIO,
    metric_specs: BinaryIO | None,
    registry: Registry[AnyRule],
    judging: Judging,
    foreign: ForeignTasks,
) -> None:
    """Score FILE: one ScoreRequest per input line, one Verdict per output line, in order.

    Both in proto3 JSON with the proto's own field names; `-` is stdin. A line that holds a
    `verdict` is counted in the summary only.
    """
    from scorer.cli.scored_file import score
    from scorer.foreign_tasks import allow

    allow(foreign)
    asyncio.run(score(file, metric_specs, registry, judging))
