"""`orchestrator check`: judges any model server against the contract."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from lyncean.cli import Command, examples
from lyncean.cli.options import POSITIVE_SECONDS, client_options
from lyncean.rpc import Credentials
from lyncean.rpc.security import TOOL_TOKEN_VARIABLE, read_token
from orchestrator.cli.options import number, refuse, run_to_end, written


@click.command(
    "check",
    cls=Command,
    epilog=examples(
        "orchestrator check --endpoint 127.0.0.1:50051",
        "orchestrator check --endpoint 127.0.0.1:50051 --junit check.xml",
        "orchestrator check --endpoint 127.0.0.1:50051,127.0.0.1:50052 --drift night.yaml",
    ),
)
@click.argument("address", required=False, metavar="[H:P]")
@click.option("--endpoint", "-e", help="The model server, H:P; with --drift H:P,H:P for two replicas.")
@click.option(
    "--drift",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Measure what the server makes of the same requests, those of a suite: alone, in batches, again and on a "
    "second replica. Gains up to it are noise.",
)
@click.option("--run", type=click.Path(path_type=Path), help="With --drift the suite's folder; default: runs/NAME.")
@click.option("--tools", "tools_at", metavar="H:P", help="Test a server of tools, against lyncean.tool.v1.")
@click.option("--only", multiple=True, metavar="NAME", help="Run this check only; repeatable.")
@number("--timeout", type=POSITIVE_SECONDS, default=60.0, show_default=True, help="Timeout of a request in seconds.")
@click.option(
    "--drain-pid", type=click.IntRange(2), help="Also test draining: send SIGTERM to this process at the end."
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write JUnit XML here.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--list", "listed", is_flag=True, help="List the checks with the sentences of the contract that they test."
)
@client_options
def command(
    credentials: Credentials,
    address: str | None,
    endpoint: str | None,
    drift: Path | None,
    run: Path | None,
    tools_at: str | None,
    only: tuple[str, ...],
    timeout: float,
    drain_pid: int | None,
    junit: Path | None,
    as_json: bool,
    listed: bool,
) -> None:
    """Test a model server, in any language, against lyncean.model.v1, or a server of tools against its contract.

    Exit codes: 0 every check passed or does not apply, 2 the server cannot be reached or the command
    is wrong, 4 a check failed.
    """
    from lyncean.rpc import CallError
    from orchestrator.conformance import CHECKS, Result, Status, judge, judge_tools, report, tools
    from orchestrator.engine import parse_endpoints
    from orchestrator.engine.failures import describe, dialled
    from orchestrator.run.console import Terminal

    checks, contract = (tools.CHECKS, tools.CONTRACT) if tools_at else (CHECKS, report.MODEL)
    if listed:
        for check in (CHECKS | tools.CHECKS).values():
            click.echo(f"{check.name}\n    {check.contract}")
        return
    unknown = sorted(set(only) - checks.keys())
    if unknown:
        raise click.UsageError(f"unknown check {unknown[0]!r}; --list names them")
    if address and endpoint:
        raise click.UsageError(f"{address} and --endpoint {endpoint}: give one address")
    if tools_at and (address or endpoint or drain_pid):
        raise click.UsageError("--tools tests a server of tools: leave out the model server and --drain-pid")
    endpoints = parse_endpoints([text for text in (address, endpoint, tools_at) if text])
    if drift is not None:
        refuse(
            ["only", "drain_pid", "junit", "listed", "tools_at"],
            "is of the contract's checks: leave it out beside --drift",
        )
        _drift(drift, [str(one) for one in endpoints], run, credentials, as_json=as_json)
        return
    refuse(["run"], "is the folder of --drift: give both, or leave it out")
    if len(endpoints) != 1:
        raise click.UsageError("give one --endpoint H:P")
    server = str(endpoints[0])
    if tools_at and not click.get_current_context().params["token_file"]:
        credentials = replace(credentials, token=read_token(None, TOOL_TOKEN_VARIABLE))
    console = Terminal(stderr=as_json)
    results: list[Result] = []

    def waiting(error: CallError, seconds: float) -> None:
        click.echo(f"waiting up to {seconds:.0f} s for {server}: {describe(error)}", err=True)

    async def work() -> None:
        if tools_at:
            judging = judge_tools(server, credentials, timeout=timeout, only=only)
        else:
            judging = judge(server, credentials, timeout=timeout, pid=drain_pid, only=only, waiting=waiting)
        async for result in judging:
            results.append(result)
            report.print_result(result, console)

    try:
        asyncio.run(work())
    except CallError as error:
        first, kind = ("ListTools", "server of tools") if tools_at else ("GetModelInfo", "model server")
        raise click.UsageError(
            f"{server} does not answer {first} ({describe(error)}): is a {kind} running there, {dialled(credentials)}?"
        ) from error
    if junit:
        with written(junit):
            report.write_junit(junit, server, results, contract)
    if as_json:
        click.echo(json.dumps(report.as_json(server, results, contract), indent=2, ensure_ascii=False))
    console.print(f"{server}: {report.summary(results)}", highlight=False, soft_wrap=True)
    if any(result.status is Status.FAILED for result in results):
        if advice := report.for_an_evaluation(results):
            console.print(advice, highlight=False, soft_wrap=True)
        sys.exit(4)


def _drift(file: Path, servers: list[str], run: Path | None, credentials: Credentials, *, as_json: bool) -> None:
    """Measures the noise of a server, and prints it."""
    from dataclasses import asdict

    from orchestrator.run.console import Terminal
    from orchestrator.suite.file import SuiteFile
    from orchestrator.suite.measure_drift import measure

    if not 1 <= len(servers) <= 2:
        raise click.UsageError("--drift: give --endpoint H:P, or H:P,H:P for two replicas")
    console = Terminal(stderr=as_json, markup=False)
    folder = run or Path("runs") / file.stem
    measured = run_to_end(measure(SuiteFile.read(file), servers, folder, console, credentials))
    for way in measured.ways:
        console.print(
            f"{way.first} and {way.second}: {100 * way.answers:.1f}% other answers, {100 * way.scores:.1f}% other "
            f"scores, {100 * way.difference:+.1f} points",
            highlight=False,
        )
    noise = f"{100 * measured.noise:.1f} points over {measured.items:,} items"
    console.print(f"noise of the server: {noise}", highlight=False)
    if as_json:
        click.echo(json.dumps(asdict(measured), indent=2))
