"""`orchestrator tasks`: what there is to run."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click

from lyncean.cli import Command, examples


@click.command(
    "tasks",
    cls=Command,
    epilog=examples(
        "orchestrator tasks",
        "orchestrator tasks --task marvel --task voila",
    ),
)
@click.option("--task", "-t", "names", multiple=True, help="Tasks, groups or task files (YAML) to list; default: all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object with tasks and groups.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """List tasks and groups, and each benchmark's default data, methods and settings."""
    from orchestrator.benchmarks.registry import benchmarks, find

    # One entry a benchmark, in the order of the names.
    listed = list({b.name: b for b in find(names).values()}.values()) if names else list(benchmarks().values())
    if as_json:
        tasks = [
            {
                "task": task,
                "benchmark": b.name,
                "description": description,
                "methods": list(b.methods),
                "data": b.data,
                "settings": _settings(b.settings),
            }
            for b in listed
            for task, description in b.tasks.items()
        ]
        groups = {name: list(members) for b in listed for name, members in b.groups.items()}
        click.echo(json.dumps({"tasks": tasks, "groups": groups}, indent=2, ensure_ascii=False))
        return
    width = max(len(task) for b in listed for task in (*b.tasks, *b.groups))
    for b in listed:
        click.echo(click.style(b.name, bold=True))
        for task, description in b.tasks.items():
            click.echo(f"  {task:<{width}}  {description}")
        for name, members in b.groups.items():
            click.echo(f"  {name:<{width}}  all of: {', '.join(members[:4])}{' ...' if len(members) > 4 else ''}")
        click.echo(f"    data: {b.data.partition(chr(10))[0]}; --method {' or '.join(b.methods)}")
        for setting in _settings(b.settings):
            click.echo(f"    --set {setting['name']}={setting['default']}: {setting['help']}")


def _settings(kind: type) -> list[dict[str, Any]]:
    if not dataclasses.is_dataclass(kind):
        return []
    return [
        {"name": field.name, "default": field.default, "help": field.metadata.get("help", "")}
        for field in dataclasses.fields(kind)
    ]
