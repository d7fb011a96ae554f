"""`orchestrator import`: predictions made elsewhere, scored here."""

from __future__ import annotations

import importlib

import click

KINDS = {
    "lmms-eval": ("lmms_eval", "A samples file of lmms-eval, read as a careful person would and as lmms-eval does."),
    "reform": ("reform", "Predictions in ReForm-Eval's own output layout."),
    "reform-instructions": ("reform_instructions", "ReForm-Eval's instruction files."),
}
"""What is imported -> module of `orchestrator.importers` whose `command` it is, and what `--help` says of it."""


class _Importers(click.Group):
    """Imports an importer only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(KINDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in KINDS:
            return None
        found: click.Command = importlib.import_module(f"orchestrator.importers.{KINDS[cmd_name][0]}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Kinds"):
            formatter.write_dl([(name, text) for name, (_, text) in KINDS.items()])


@click.command(cls=_Importers, subcommand_metavar="KIND PATH [OPTIONS]...")
def command() -> None:
    """Take in predictions made elsewhere as a run folder, scored like any other."""
