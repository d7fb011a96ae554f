"""`orchestrator score`: scores a run's answers again from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from lyncean.cli import Command, examples
from lyncean.cli.options import client_options
from lyncean.rpc import Credentials
from orchestrator.cli.folders import WrittenRun
from orchestrator.cli.options import OF_CODE, request_options, run_to_end, scorer_at


@click.command(
    "score",
    cls=Command,
    epilog=examples(
        "orchestrator score runs/first",
        "orchestrator score runs/first --parity",
        "orchestrator score runs/repeated --metric pass_at,k=4 --metric consistency",
    ),
)
@click.argument("run", type=WrittenRun())
@click.option("--parity", is_flag=True, help="Read as the reference does; the metrics go to RUN/parity.")
@request_options("metrics", "prices", "scorer", "patience", "judge", "judge_cache", "judge_reads", *OF_CODE)
@client_options
def command(
    credentials: Credentials,
    run: Path | str,
    parity: bool,
    metrics: Sequence[str],
    prices: str | None,
    scorer: str | None,
    patience: float,
    judge: Sequence[str],
    judge_cache: str | None,
    judge_reads: str,
    include_path: Sequence[str],
    trust_task_code: bool,
) -> None:
    """Score a complete run again from its run folder.

    With --parity, results by the reference's rules are written beside the default ones, and
    items on which they differ are listed.

    Exit codes are those of `eval`.
    """
    endpoint = scorer_at(scorer)

    async def work() -> None:
        from orchestrator.report import Reports, write_report
        from orchestrator.report.readings import described
        from orchestrator.run import checks, foreign, further_metrics, rescore
        from orchestrator.run.arguments import judge_arguments
        from orchestrator.run.asked import check_asked
        from orchestrator.run.console import Terminal
        from orchestrator.run.prices import PriceTable
        from orchestrator.run.servers import connect_scorer
        from orchestrator.run_folder import manifest as run_manifest, remote
        from orchestrator.run_folder.files import has_verdicts

        further = further_metrics.read(metrics)
        table = None if prices is None else PriceTable.read(Path(prices))
        arguments = judge_arguments(judge, judge_cache, judge_reads, scorer)
        with remote.writing(run) as (path, _):
            assert path
            if endpoint is None:
                arguments += foreign.of_run(path, include_path, trusted=trust_task_code)
            async with connect_scorer(endpoint, credentials, patience, arguments=arguments) as (client, rules):
                recorded = foreign.recorded(include_path, trusted=trust_task_code)
                recorded |= table.of_run(run_manifest.read(path)) if table else {}
                scored = await rescore.rescore(path, client, rules, parity=parity, given=recorded, further=further)
            Reports().finish(scored, Terminal(markup=False))
            if parity and has_verdicts(path):
                click.echo("\n".join(described(path)))
                # The run's own page now has a reference's reading to show beside its metrics.
                click.echo(f"report of both: {write_report(path)}")
            check_asked(scored, f"run its command again ({run_manifest.read(path)['command']})")
            checks.check_judged(scored)
            checks.check_metrics(scored)
            checks.check_results(scored)

    run_to_end(work())
