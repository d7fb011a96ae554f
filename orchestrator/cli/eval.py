"""`orchestrator eval`: asks a model everything a task asks, scores it and writes a report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from lyncean.rpc import Credentials
from lyncean.rpc.options import POSITIVE_SECONDS, FiniteRange, client_options
from orchestrator.cli.folders import WrittenRun
from orchestrator.cli.groups import examples
from orchestrator.cli.judging import judge_arguments, judge_options
from orchestrator.cli.outcome import guarded
from orchestrator.cli.unused import refuse, refuse_dialling
from orchestrator.run.ranges import CONCURRENCY, LIMIT, PATIENCE, REPEATS, SEED, TIMEOUT, numeric

MOST_DIGITS = 20
"""Characters of `--shard`: no cluster has more shards, and Python refuses to read very long numbers."""

_RATE = FiniteRange(1e-6, 1e6)


@click.command(
    "eval",
    epilog=examples(
        "orchestrator eval --task marvel --synthetic --limit 20",
        "orchestrator eval --task marvel --data marvel.parquet --model Qwen/Qwen2.5-VL-7B-Instruct",
        "orchestrator eval --task vstar_bench --endpoint a:50051,b:50051 --run runs/first",
        "orchestrator eval --task animals.yaml --method likelihood --dry-run",
    ),
)
@click.option("--task", "-t", "tasks", multiple=True, required=True, help="Task, group or .yaml task file; repeatable.")
@click.option(
    "--endpoint", "-e", "endpoints", multiple=True, help="Model servers H:P[,H:P]; without it one is started."
)
@click.option("--scorer", "scorer_at", help="Scorer H:P; without it one is started.")
@click.option(
    "--model", show_default="demo", help="Model to start: demo, demo:hash (without weights), a folder or a hub id."
)
@click.option("--method", type=click.Choice(["generate", "likelihood"]), default="generate", show_default=True)
@click.option("--data", multiple=True, help="Path or hub id of the data, or TASK=PATH; default each task's hub id.")
@click.option("--synthetic", is_flag=True, help="Draw rows from the seed instead of reading data: runs offline.")
@numeric("--limit", type=LIMIT, help="Only the first N rows of each task.")
@numeric("--repeats", type=REPEATS, default=1, show_default=True, help="Ask each row N times.")
@click.option("--shuffle-options", is_flag=True, help="Permute options, anew for each sample and repeat.")
@click.option("--blind", is_flag=True, help="Grey images in place of the real ones: what do words alone give?")
@click.option("--parity", is_flag=True, help="Ask and score as the reference implementation does, bugs included.")
@numeric(
    "--seed",
    type=SEED,
    default=0,
    show_default=True,
    help="Of whatever is drawn: shuffles, synthetic rows.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the benchmark's own.")
@click.option("--stage", "stages", multiple=True, metavar="NAME=H:P", help="Another model for one stage of a sample.")
@click.option("--shard", help="I/N, I from 0: this part of the samples; N alone takes I from $JOB_COMPLETION_INDEX.")
@click.option("--run", type=WrittenRun(), help="Run folder, a path or URL (s3://…); default runs/NAME.")
@numeric("--concurrency", type=CONCURRENCY, help="Calls in flight per replica; default what it asks for.")
@numeric("--timeout", type=TIMEOUT, default=600.0, show_default=True, help="Seconds per call.")
@numeric(
    "--patience", type=PATIENCE, default=600.0, show_default=True, help="Seconds to wait for servers and to retry for."
)
@numeric("--max-tokens-total", type=click.IntRange(1), help="Stop after so many tokens in this run folder.")
@numeric("--max-requests-per-second", type=_RATE, metavar="N", help="Over all replicas; each shard by itself.")
@numeric("--deadline", type=POSITIVE_SECONDS, help="Stop, to be resumed, after so many seconds.")
@judge_options
@click.option("--dry-run", is_flag=True, help="Print what would be sent and what it may cost; send nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json on stdout, progress on stderr.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")
@client_options
def command(credentials: Credentials, **given: Any) -> None:
    """Evaluate a model on tasks. Running the same command again resumes it.

    Exit codes: 0 complete, 1 defect, 2 usage or configuration, 3 incomplete (run again to
    resume), 4 a quality gate failed.
    """
    if given["endpoints"]:
        refuse(["model"], "starts a model server, --endpoint names those that run: leave one out")
    if not (given["endpoints"] or given["scorer_at"] or given["stages"]):
        refuse_dialling("--endpoint", "--scorer", "--stage")
    sys.exit(_run(credentials, given))


def _run(credentials: Credentials, given: dict[str, Any]) -> int:
    console = Console(stderr=given["as_json"], quiet=given["quiet"], markup=False)
    run, code = guarded(lambda: _evaluate(credentials, given, console))
    if run is not None and given["as_json"]:
        click.echo((run / "results.json").read_text(), nl=False)
    return code


async def _evaluate(credentials: Credentials, given: dict[str, Any], console: Console) -> Path | None:
    from orchestrator.engine import Budget, Options
    from orchestrator.run import dry_run, evaluate
    from orchestrator.run import plan as run_plan
    from orchestrator.run_folder import remote

    plan = run_plan.make(
        given["tasks"],
        method=given["method"],
        data=given["data"],
        synthetic=given["synthetic"],
        limit=given["limit"],
        repeats=given["repeats"],
        seed=given["seed"],
        shuffle_options=given["shuffle_options"],
        parity=given["parity"],
        blind=given["blind"],
        settings=given["settings"],
    )
    options = Options(
        timeout=given["timeout"], patience=given["patience"], blind=given["blind"], shard=parse_shard(given["shard"])
    )
    budget = Budget(
        max_tokens=given["max_tokens_total"],
        max_per_second=given["max_requests_per_second"],
        deadline=given["deadline"],
    )
    where = _where(credentials, given)
    if given["dry_run"]:
        dry_run.describe(plan, options.shard, console)
        return None
    with remote.writing(given["run"]) as place:
        run = await evaluate.evaluate(
            plan, where, options, budget, run=place.path, console=console, beside=place.guards
        )
        evaluate.finish(run, console)
    return run


def _where(credentials: Credentials, given: dict[str, Any]) -> Any:
    from orchestrator.engine import ConfigError, Endpoint, parse_endpoints
    from orchestrator.run.evaluate import Where

    stages: dict[str, list[Endpoint]] = {}
    for word in given["stages"]:
        name, equals, address = word.partition("=")
        if not (name and equals):
            raise ConfigError(f"--stage {word}: give NAME=H:P")
        stages.setdefault(name, []).extend(parse_endpoints([address]))
    return Where(
        endpoints=parse_endpoints(given["endpoints"]),
        stages=stages,
        scorer=one_endpoint(given["scorer_at"]),
        model="demo" if given["model"] is None else given["model"],
        credentials=credentials,
        concurrency=given["concurrency"],
        judge=judge_arguments(given["judges"], given["judge_cache"], given["scorer_at"]),
    )


def one_endpoint(word: str | None) -> Any:
    """Reads `--scorer`.

    Raises:
        ConfigError: If it is not one H:P.
    """
    from orchestrator.engine import ConfigError, parse_endpoints

    if word is None:
        return None
    found = parse_endpoints([word])
    if len(found) != 1:
        raise ConfigError(f"--scorer takes one H:P, not {word!r}")
    return found[0]


def parse_shard(word: str | None) -> tuple[int, int] | None:
    """Reads `--shard`: `I/N`, or `N` with I from $JOB_COMPLETION_INDEX.

    Raises:
        ConfigError: If it is neither.
    """
    from orchestrator.engine import ConfigError

    if word is None:
        return None
    first, slash, count = word.rpartition("/")
    index = first if slash else os.environ.get("JOB_COMPLETION_INDEX", "")
    short = len(word) <= MOST_DIGITS
    if not (short and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ConfigError(f"--shard {word}: give I/N with I from 0 to N-1, or N where $JOB_COMPLETION_INDEX is set")
    return int(index), int(count)
