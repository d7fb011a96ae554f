"""`orchestrator import`: predictions made elsewhere, scored here."""

from __future__ import annotations

import click

from orchestrator.cli.groups import LazyGroup, examples

KINDS = {
    "lmms-eval": (
        "orchestrator.interop.lmms_eval_import",
        "A samples file of lmms-eval, read as a careful person would and as lmms-eval does.",
    ),
    "reform": ("orchestrator.interop.reform_import", "Predictions in ReForm-Eval's own output layout."),
    "reform-instructions": ("orchestrator.benchmarks.reform.import_instructions", "ReForm-Eval's instruction files."),
}
"""What is imported -> module whose `command` it is, and what `--help` says of it."""


@click.command(
    cls=LazyGroup,
    modules=KINDS,
    heading="Kinds",
    subcommand_metavar="KIND PATH [OPTIONS]...",
    epilog=examples("orchestrator import lmms-eval logs/MODEL/DATE_samples_vstar_bench.jsonl --run runs/theirs"),
)
def command() -> None:
    """Take in predictions made elsewhere as a run folder, scored like any other."""
