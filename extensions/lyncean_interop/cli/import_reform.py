"""`orchestrator import reform`: a prediction file of ReForm-Eval, scored as its own script does."""

from __future__ import annotations

from pathlib import Path

import click

from lyncean.cli import Command, client_options
from lyncean.rpc import Credentials
from orchestrator.benchmarks.reform import FORMULATIONS, METHODS, SINGLE_CHOICE
from orchestrator.cli import RunFolder, request_options, run_to_end, scorer_at


@click.command("reform", cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PREDICTIONS.json")
@click.option("--formulation", type=click.Choice(FORMULATIONS), required=True)
@click.option("--infer", type=click.Choice(METHODS), default="generation", show_default=True)
@click.option("--stability", is_flag=True, help="Instability over the tests of each sample (SingleChoice).")
@click.option("--multi-round", is_flag=True, help="Correlation and slope of the score over rounds (SingleChoice).")
@click.option("--task", help="Task name; default: from the file name.")
@click.option("--model", help="Model name; default: from the file name.")
@click.option("--run", type=RunFolder(), help="Run folder; default: runs/FILE.")
@request_options("scorer", "patience")
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@client_options
def command(
    credentials: Credentials,
    file: Path,
    formulation: str,
    infer: str,
    stability: bool,
    multi_round: bool,
    task: str | None,
    model: str | None,
    run: Path | None,
    scorer: str | None,
    patience: float,
    quiet: bool,
) -> None:
    """Import a prediction file of ReForm-Eval as a run, scored bit for bit by ReForm-Eval's rules."""
    for flag, present in (
        ("--stability", stability),
        ("--multi-round", multi_round),
        ("--infer likelihood", infer == "likelihood"),
    ):
        if present and formulation != SINGLE_CHOICE:
            raise click.UsageError(f"{flag} needs --formulation {SINGLE_CHOICE}")
    endpoint = scorer_at(scorer)
    folder = run or Path("runs") / file.stem

    async def work() -> None:
        from lyncean_interop.reform_import import import_predictions
        from orchestrator.report import Reports
        from orchestrator.run import Terminal, check_metrics, check_results

        await import_predictions(
            file,
            folder,
            formulation,
            infer,
            stability=stability,
            rounds=multi_round,
            task=task,
            model_name=model,
            endpoint=endpoint,
            credentials=credentials,
            patience=patience,
        )
        Reports().finish(folder, Terminal(quiet=quiet, markup=False))
        check_metrics(folder)
        check_results(folder)

    run_to_end(work())
