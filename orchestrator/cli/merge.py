"""`orchestrator merge`: one run out of its shards."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from lynceus.rpc import Credentials
from lynceus.rpc.options import client_options
from orchestrator.cli.eval import one_endpoint
from orchestrator.cli.outcome import guarded
from orchestrator.cli.unused import refuse_dialling

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("merge")
@click.argument("shards", nargs=-1, required=True, type=_FOLDER)
@click.option("--run", required=True, type=_FOLDER, help="Folder to make.")
@click.option("--scorer", "scorer_at", help="Scorer H:P; without it one is started.")
@click.option("--patience", type=click.FloatRange(0), default=600.0, show_default=True, help="Seconds to retry for.")
@client_options
def command(
    credentials: Credentials, shards: tuple[Path, ...], run: Path, scorer_at: str | None, patience: float
) -> None:
    """Put the run folders of all shards together; the results are those of one run."""
    if not scorer_at:
        refuse_dialling("--scorer")

    async def work() -> Path:
        from orchestrator import run_eval, run_merge, run_results

        endpoint = one_endpoint(scorer_at)
        async with run_eval.connect_scorer(endpoint, credentials, patience) as (client, _):
            manifest = run_merge.merge(shards, run)
            await run_results.write(run, manifest, client)
        run_eval.finish(run, Console())
        return run

    sys.exit(guarded(work)[1])
