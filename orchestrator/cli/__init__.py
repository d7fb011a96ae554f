"""The command `orchestrator`: one file per subcommand, imported when it is called for."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "eval": ("eval", "Run tasks against a model; the same command again resumes."),
    "tasks": ("tasks", "List tasks, what they ask and what they take."),
    "prompts": ("prompts", "Write the requests exactly as they would be sent."),
    "score": ("score", "Score a run again, with no model in sight."),
    "report": ("report", "Make reports and tables of runs."),
    "compare": ("compare", "Compare runs sample by sample; gate on the result."),
    "view": ("view", "Browse a folder of runs, live while they run."),
    "merge": ("merge", "Join the shards of one run."),
    "check": ("check", "Judge any model server against the contract."),
    "import": ("importing", "Take in predictions made elsewhere."),
    "generate": ("generate", "Make benchmark questions."),
    "submit": ("submit", "Render a run for a Kubernetes cluster."),
    "new-task": ("new_task", "Scaffold a task file from a data file."),
    "fetch": ("fetch", "Bundle a task's data for use without a network."),
}
"""Subcommand -> module in this package whose `command` it is, and what `--help` says of it."""


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is used: `--help` stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in the order above."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns one subcommand."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{COMMANDS[cmd_name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lynceus")
def main() -> None:
    """Evaluate multimodal models behind a gRPC endpoint, with numbers that hold."""
