"""The command `scorer`: one file per subcommand, imported when it is called for."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "serve": "scorer.cli.serve",
    "score": "scorer.cli.score",
    "rules": "scorer.cli.rules",
    "calibrate": "scorer.cli.calibrate",
}
"""Subcommand -> module whose `command` it is."""


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is used: `--help` stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in the order above."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns one subcommand."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lyncean")
def main() -> None:
    """Turn answers into verdicts, and verdicts into figures that can be trusted."""
