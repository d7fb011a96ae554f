"""`orchestrator score`: reads a run's answers anew, with no model in sight."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from lyncean.rpc import Credentials
from lyncean.rpc.options import SECONDS, client_options
from orchestrator.cli.eval import one_endpoint
from orchestrator.cli.folders import WrittenRun
from orchestrator.cli.groups import examples
from orchestrator.cli.judging import judge_arguments, judge_options
from orchestrator.cli.outcome import guarded
from orchestrator.cli.unused import refuse_dialling
from orchestrator.run.ranges import numeric


@click.command(
    "score",
    epilog=examples(
        "orchestrator score runs/first",
        "orchestrator score runs/first --parity",
    ),
)
@click.argument("run", type=WrittenRun())
@click.option("--scorer", "scorer_at", help="Scorer H:P; without it one is started.")
@click.option("--parity", is_flag=True, help="Read as the reference does; the figures go to RUN/parity.")
@numeric("--patience", type=SECONDS, default=600.0, show_default=True, help="Seconds to retry for.")
@judge_options
@client_options
def command(
    credentials: Credentials,
    run: Path | str,
    scorer_at: str | None,
    parity: bool,
    patience: float,
    judges: tuple[str, ...],
    judge_cache: str | None,
) -> None:
    """Score a complete run again from its folder alone.

    With --parity both readings of the answers stand side by side, and where they differ is said.

    Exit codes are those of `eval`.
    """
    if not scorer_at:
        refuse_dialling("--scorer")

    async def work() -> Path:
        from orchestrator.report import write_report
        from orchestrator.report.readings import described
        from orchestrator.run import evaluate, rescore
        from orchestrator.run_folder import remote
        from orchestrator.run_folder.log import VERDICTS

        endpoint = one_endpoint(scorer_at)
        judge = judge_arguments(judges, judge_cache, scorer_at)
        with remote.writing(run) as place:
            assert place.path
            async with evaluate.connect_scorer(endpoint, credentials, patience, judge=judge) as (client, rules):
                scored = await rescore.rescore(place.path, client, rules, parity=parity)
            evaluate.finish(scored, Console(markup=False))
            if parity and (place.path / VERDICTS).stat().st_size:
                click.echo("\n".join(described(place.path)))
                # The run's own page now has a reference's reading to show beside its figures.
                click.echo(f"report of both: {write_report(place.path)}")
        return scored

    sys.exit(guarded(work)[1])
