"""`orchestrator merge`: one run out of its shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from lyncean.cli import Command, examples
from lyncean.cli.options import client_options
from lyncean.rpc import Credentials
from orchestrator.cli.folders import ReadRun, WrittenRun
from orchestrator.cli.options import OF_CODE, request_options, run_to_end, scorer_at


@click.command(
    "merge",
    cls=Command,
    epilog=examples(
        "orchestrator eval --task marvel --synthetic --shard 0/2 --run part0",
        "orchestrator eval --task marvel --synthetic --shard 1/2 --run part1",
        "orchestrator merge part0 part1 --run whole",
    ),
)
@click.argument("shards", nargs=-1, required=True, type=ReadRun(exists=False))
@click.option("--run", required=True, type=WrittenRun(), help="New folder, a path or URL.")
@request_options("scorer", "patience", *OF_CODE)
@client_options
def command(
    credentials: Credentials,
    shards: tuple[Path, ...],
    run: Path | str,
    scorer: str | None,
    patience: float,
    include_path: Sequence[str],
    trust_task_code: bool,
) -> None:
    """Merge the run folders of all shards. The results equal those of an unsharded run.

    Exit codes are those of `eval`: 2 where a shard is missing, there twice, not complete or
    another command's, 3 where items failed in one.
    """
    endpoint = scorer_at(scorer)

    async def work() -> None:
        from orchestrator.errors import IncompleteError
        from orchestrator.report import Reports
        from orchestrator.run import checks, foreign, merge, results as run_results
        from orchestrator.run.asked import check_asked
        from orchestrator.run.console import Terminal
        from orchestrator.run.servers import connect_scorer
        from orchestrator.run_folder import remote

        with remote.writing(run) as (path, _):
            assert path
            code = [] if endpoint else foreign.of_run(shards[0], include_path, trusted=trust_task_code)
            async with connect_scorer(endpoint, credentials, patience, arguments=code) as (client, _):
                manifest = merge.merge(shards, path)
                results = await run_results.write(path, manifest, client)
            Reports().finish(path, Terminal(markup=False))
        if failed := run_results.failed(results):
            raise IncompleteError(
                f"{failed:,} items failed after retries: run the shards' commands again to ask them again, then merge "
                "into a new folder"
            )
        check_asked(path, "run the shards' commands again and merge into a new folder")
        checks.check_judged(path)
        checks.check_metrics(path)
        checks.check_results(path)

    run_to_end(work())
