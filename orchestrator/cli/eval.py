"""`orchestrator eval`: runs tasks against a model, scores the answers and writes a report."""

from __future__ import annotations

from typing import Any

import click

from lyncean.cli import Command, examples
from lyncean.cli.options import client_options
from lyncean.rpc import Credentials
from orchestrator.cli.options import refuse, refuse_dialling, request_options
from orchestrator.cli.outcome import ended
from orchestrator.run.request import RunRequest


@click.command(
    "eval",
    cls=Command,
    epilog=examples(
        "orchestrator eval --task marvel --synthetic --limit 20",
        "orchestrator eval --task marvel --data marvel.parquet --model Qwen/Qwen2.5-VL-7B-Instruct",
        "orchestrator eval --task vstar_bench --endpoint a:50051,b:50051 --run runs/first",
        "orchestrator eval --task animals.yaml --method likelihood --dry-run",
    ),
)
@request_options()
@click.option("--dry-run", is_flag=True, help="Print the size and cost of the run; send nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json on stdout, progress on stderr.")
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@client_options
def command(dry_run: bool, as_json: bool, quiet: bool, credentials: Credentials, **parameters: Any) -> None:
    """Evaluate a model on tasks. The same command resumes an interrupted run.

    Exit codes: 0 complete, 1 internal error, 2 usage or configuration, 3 incomplete (run again to
    resume), 4 a quality gate failed.
    """
    from orchestrator.run import evaluate
    from orchestrator.run.console import Terminal

    request = RunRequest(**parameters, credentials=credentials)
    if request.endpoint:
        refuse(["model"], "starts a model server, --endpoint names those that run: leave one out")
    if not (request.endpoint or request.scorer or request.stages):
        refuse_dialling("--endpoint", "--scorer", "--stage")
    console = Terminal(stderr=as_json, quiet=quiet, markup=False)
    if dry_run:
        evaluate.dry_run(request, console)
        return
    run = ended(evaluate.run(request, console))
    if as_json:
        click.echo((run / "results.json").read_text(), nl=False)
