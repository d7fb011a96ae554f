"""The command `orchestrator`: one file per subcommand, imported when it is called for."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "eval": "orchestrator.cli.eval",
    "tasks": "orchestrator.cli.tasks",
    "prompts": "orchestrator.cli.prompts",
    "score": "orchestrator.cli.score",
    "report": "orchestrator.cli.report",
    "compare": "orchestrator.cli.compare",
    "view": "orchestrator.cli.view",
    "merge": "orchestrator.cli.merge",
    "check": "orchestrator.cli.check",
    "import": "orchestrator.cli.importing",
    "generate": "orchestrator.cli.generate",
    "submit": "orchestrator.cli.submit",
    "new-task": "orchestrator.cli.new_task",
    "fetch": "orchestrator.cli.fetch",
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
@click.version_option(package_name="lynceus")
def main() -> None:
    """Evaluate multimodal models behind a gRPC endpoint, with numbers that hold."""
