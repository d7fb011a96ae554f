"""`orchestrator import`: predictions made elsewhere, scored here."""

from __future__ import annotations

import click

from lyncean.cli import LazyGroup, examples

KINDS = {
    "inspect": ("lyncean_interop.cli.import_answers:inspect", "A log of Inspect AI."),
    "lm-eval": ("lyncean_interop.cli.import_answers:lm_eval", "A samples file of lm-evaluation-harness."),
    "vlmevalkit": ("lyncean_interop.cli.import_answers:vlmevalkit", "Predictions of VLMEvalKit, a table."),
    "lmms-eval": (
        "lyncean_interop.cli.import_lmms_eval",
        "A samples file of lmms-eval, scored by the default rules and by lmms-eval's own.",
    ),
    "reform": ("lyncean_interop.cli.import_reform", "Predictions in ReForm-Eval's own output layout."),
    "reform-instructions": ("lyncean_interop.cli.import_reform_instructions", "ReForm-Eval's instruction files."),
}
"""Kind of import -> its module, and its line in `--help`."""


@click.command(
    cls=LazyGroup,
    modules=KINDS,
    heading="Kinds",
    noun="import",
    subcommand_metavar="KIND PATH [OPTIONS]...",
    epilog=examples("orchestrator import lmms-eval logs/MODEL/DATE_samples_vstar_bench.jsonl --run runs/theirs"),
)
def command() -> None:
    """Import predictions of other tools as a run folder, scored like any other."""
