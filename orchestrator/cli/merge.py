"""`orchestrator merge`: one run out of its shards."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from lyncean.rpc import Credentials
from lyncean.rpc.options import SECONDS, client_options
from orchestrator.cli.eval import one_endpoint
from orchestrator.cli.folders import ReadRun, WrittenRun
from orchestrator.cli.groups import examples
from orchestrator.cli.outcome import guarded
from orchestrator.cli.unused import refuse_dialling
from orchestrator.run.ranges import numeric


@click.command(
    "merge",
    epilog=examples(
        "orchestrator eval --task marvel --synthetic --shard 0/2 --run part0",
        "orchestrator eval --task marvel --synthetic --shard 1/2 --run part1",
        "orchestrator merge part0 part1 --run whole",
    ),
)
@click.argument("shards", nargs=-1, required=True, type=ReadRun(exists=False))
@click.option("--run", required=True, type=WrittenRun(), help="Folder to make, a path or URL.")
@click.option("--scorer", "scorer_at", help="Scorer H:P; without it one is started.")
@numeric("--patience", type=SECONDS, default=600.0, show_default=True, help="Seconds to retry for.")
@client_options
def command(
    credentials: Credentials, shards: tuple[Path, ...], run: Path | str, scorer_at: str | None, patience: float
) -> None:
    """Put the run folders of all shards together; the results are those of one run.

    Exit codes are those of `eval`: 2 where a shard is missing, there twice, not complete or
    another command's, 3 where items failed in one.
    """
    if not scorer_at:
        refuse_dialling("--scorer")

    async def work() -> Path:
        from orchestrator.engine import IncompleteError
        from orchestrator.run import evaluate, merge
        from orchestrator.run import results as run_results
        from orchestrator.run_folder import remote

        endpoint = one_endpoint(scorer_at)
        with remote.writing(run) as place:
            assert place.path
            async with evaluate.connect_scorer(endpoint, credentials, patience) as (client, _):
                manifest = merge.merge(shards, place.path)
                results = await run_results.write(place.path, manifest, client)
            made = place.path
            evaluate.finish(made, Console(markup=False))
        failed = run_results.failed(results)
        if failed:
            raise IncompleteError(
                f"{failed:,} items failed after retries: run the shards' commands again to ask them again, then merge "
                "into a new folder"
            )
        return made

    sys.exit(guarded(work)[1])
