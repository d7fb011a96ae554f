"""`orchestrator generate`: benchmarks that are drawn rather than collected."""

from __future__ import annotations

import importlib

import click

COMMANDS = {"voila": "orchestrator.cli.generate_voila", "voila-images": "orchestrator.cli.generate_voila_images"}
"""What is generated -> module whose `command` it is."""


class _Generators(click.Group):
    """Imports a generator only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        return found


@click.command(cls=_Generators)
def command() -> None:
    """Generate the questions or the images of a benchmark."""
