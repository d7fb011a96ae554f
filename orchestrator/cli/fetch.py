"""`orchestrator fetch`: the data of tasks in a folder, for machines without a network."""

from __future__ import annotations

from pathlib import Path

import click

from lyncean.cli import Command, examples


@click.command(
    "fetch",
    cls=Command,
    epilog=examples(
        "orchestrator fetch --task vstar_bench --task marvel --to bundle",
        "orchestrator fetch --task marvel --data marvel=marvel.parquet --to bundle",
        "orchestrator eval --task marvel --data bundle",
    ),
)
@click.option("--task", "-t", "tasks", multiple=True, required=True, help="Task, group or task file; repeatable.")
@click.option("--data", multiple=True, metavar="TASK=PATH", help="Data of a task, instead of its hub id.")
@click.option("--to", required=True, type=click.Path(path_type=Path), help="The bundle's folder; new or empty.")
def command(tasks: tuple[str, ...], data: tuple[str, ...], to: Path) -> None:
    """Copy the data of tasks with revisions and digests, for `--data DIR` on another machine.

    A run on the bundle reads nothing else and rejects files that differ from the fetched ones.
    """
    from orchestrator.benchmarks import bundle
    from orchestrator.benchmarks.registry import find
    from orchestrator.run.arguments import check_place

    benchmarks = find(tasks)
    paths = {}
    for word in data:
        task, equals, path = word.partition("=")
        named = bool(equals) and task in benchmarks
        check_place("--data", task if named else "", path if named else word)
        if not (equals and path and task in benchmarks):
            raise click.UsageError(f"--data {word}: give TASK=PATH with one of {', '.join(benchmarks)}")
        paths[task] = path
    listed = bundle.write(benchmarks, paths, to)
    for task, slot in listed["tasks"].items():
        held = listed["data"][slot]
        revision = f" at {held['revision']}" if held["revision"] else ""
        click.echo(f"  {task}: {held['origin']}{revision}, {len(held['files'])} files")
    click.echo(f"{to}: copy it, then: orchestrator eval --task {tasks[0]} --data {to.name}")
