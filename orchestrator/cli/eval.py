"""`orchestrator eval`: runs tasks against a model, scores the answers and writes a report."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from lyncean.cli import Command, examples
from lyncean.cli.options import client_options
from lyncean.errors import UserError
from lyncean.rpc import Credentials
from orchestrator.cli.options import refuse, refuse_dialling, request_options, run_to_end
from orchestrator.run.request import RunRequest

if TYPE_CHECKING:
    from orchestrator.run.console import Terminal
    from orchestrator.run.servers import Guard
    from orchestrator.suite.file import Suite, SuiteFile
    from orchestrator.suite.record import Record

_GROUPS = {
    "Most used": (
        "tasks",
        "data",
        "synthetic",
        "limit",
        "model",
        "endpoint",
        "method",
        "generation",
        "run",
        "suite",
        "checkpoints",
        "dry_run",
    ),
    "What is evaluated": (
        *(
            "include_path",
            "trust_task_code",
            "settings",
            "metrics",
            "repeats",
            "shuffle_options",
            "seed",
            "blind",
            "parity",
        ),
        *("tools", "protocol", "max_calls", "max_answer_tokens", "shard"),
    ),
    "Fewer samples": ("share", "items", "until", "against"),
    "The model": ("model_options", "stages", "concurrency", "timeout", "patience"),
    "Decoding": ("answer", "finish_cut", "thinking", "chat_template", "extra_body"),
    "Limits": (
        *("max_tokens_total", "max_cost", "prices", "max_requests_per_second", "deadline"),
        *("max_unparsed", "max_failed", "max_rejected", "max_unjudged"),
    ),
    "Scorer and judge": ("scorer", "rules", "judge", "judge_cache", "judge_reads"),
    "Access to servers that run already": ("tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "token_file"),
    "Output": ("as_json", "quiet", "_click_default_help"),
}
"""Options by what they concern, in the order of `--help`."""

_HERE = {
    "--tasks": "give --task; lmms:NAME and lm-eval:NAME are those harnesses' tasks",
    "--model-args": "--model names the checkpoint, --model-option NAME=VALUE is an option of the server that loads it",
    "--batch-size": "the model server batches by itself: --model-option max-batch=N bounds it",
    "--gen-kwargs": "give --generation NAME=VALUE,...",
    "--max-tokens": "give --generation max_output_tokens=N for each answer, --max-tokens-total N for the whole run",
    "--output-path": "give --run DIRECTORY",
    "--log-samples": "the run folder has every sample",
    "--num-fewshot": "the examples are the task's own: marvel_few_shot, or an lmms:NAME that has them",
    "--apply-chat-template": "the model server always applies the model's; --chat-template sets its variables",
    "--use-cache": "the same command resumes its run, and asks nothing twice",
    "--device": "give --model-option device=cuda:1",
    "--dtype": "give --model-option dtype=bfloat16",
    "--revision": "give --model-option revision=COMMIT",
    "--quantize": "give --model-option quantize=fp8",
    "--adapter": "give --model-option adapter=FOLDER, the folder or hub id of a PEFT adapter",
    "--trust-remote-code": "give --model-option trust-remote-code",
}
"""Options of other harnesses and of the model server, and what does it here."""
_HERE |= {"--max-new-tokens": _HERE["--max-tokens"], "--max-output-tokens": _HERE["--max-tokens"]}


class _Eval(Command):
    """Shows its options by what they concern, and answers those of other harnesses."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        arguments = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            here = _HERE.get(error.option_name.replace("_", "-"))
            if here is None:
                raise
            raise click.UsageError(f"no such option {error.option_name}: {here}", ctx) from error
        except click.UsageError as error:
            match = re.search(r"unexpected extra arguments? \((.+)\)", error.message)
            if match is None or not re.fullmatch(r"[\w:., -]+", match[1]):  # an address may hold a password
                raise
            if all(arguments.count(word) == 1 and _is_task(word) for word in match[1].split()):
                ctx.params.clear()
                named = [["--task", word] if word in match[1].split() else [word] for word in arguments]
                return super().parse_args(ctx, [word for pair in named for word in pair])
            tasks = " ".join(f"--task {word}" for word in match[1].split())
            raise click.UsageError(f"{match[1]}: a task is named by an option, {tasks}", ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes one section for each group."""
        options = {option.name: option.get_help_record(ctx) for option in self.get_params(ctx)}
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([record for name in names if (record := options.get(name)) is not None])


def _is_task(word: str) -> bool:
    """Returns whether a word without an option before it can only be a task of ours."""
    from orchestrator.benchmarks.registry import find

    try:
        return bool(re.fullmatch(r"\w+", word) and find([word]))
    except UserError:
        return False


@click.command(
    "eval",
    cls=_Eval,
    epilog=examples(
        "orchestrator eval --task marvel --synthetic --limit 20",
        "orchestrator eval --task marvel --data marvel.parquet --model Qwen/Qwen2.5-VL-7B-Instruct",
        "orchestrator eval --task vstar_bench --endpoint a:50051,b:50051 --run runs/first",
        "orchestrator eval --task vstar_bench --until 'width<=8'",
        "orchestrator eval --task animals.yaml --method likelihood --dry-run",
        "orchestrator eval --suite night.yaml",
        "orchestrator eval --suite night.yaml --checkpoints 'ckpt/step_*' --until 'step>=2000'",
    ),
)
@request_options(tasks={"required": False})
@click.option(
    "--suite",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run models x tasks of a YAML file, resumably, with a leaderboard.",
)
@click.option(
    "--checkpoints",
    metavar="PATTERN",
    help="Evaluate each checkpoint of a training by --suite, as soon as it is complete, until Ctrl-C; "
    "--until 'step>=N' or now ends it.",
)
@click.option("--dry-run", is_flag=True, help="Print the size and cost of the run; send nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json on stdout, progress on stderr.")
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@client_options
def command(
    suite: Path | None,
    checkpoints: str | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    credentials: Credentials,
    **parameters: Any,
) -> None:
    """Evaluate a model on tasks. The same command resumes an interrupted run.

    Exit codes: 0 complete, 1 internal error, 2 usage or configuration, 3 incomplete (run again to
    resume), 4 a quality gate or a metric failed, 5 the gate of a suite is neither met nor missed.
    """
    from orchestrator.report import Reports
    from orchestrator.run import evaluate
    from orchestrator.run.console import Terminal

    if suite is not None:
        console = Terminal(stderr=as_json, quiet=quiet, markup=False)
        _suite(suite, checkpoints, parameters, credentials, console, dry_run, as_json)
        return
    refuse(["checkpoints"], "needs --suite FILE: the tasks that each checkpoint is evaluated by")
    parameters["tasks"] = [task for word in parameters["tasks"] for task in _named(word)]
    if not parameters["tasks"]:
        raise click.UsageError("Missing option '--task' / '-t'; or give --suite.")
    request = RunRequest(**parameters, credentials=credentials)
    if request.endpoint:
        refuse(["model", "model_options"], "starts a model server, --endpoint names those that run: leave one out")
    if not (request.endpoint or request.scorer or request.stages):
        refuse_dialling("--endpoint", "--scorer", "--stage")
    console = Terminal(stderr=as_json, quiet=quiet, markup=False)
    if dry_run:
        evaluate.dry_run(request, console)
        return
    run = run_to_end(evaluate.run(request, console, Reports()))
    if as_json:
        click.echo((run / "results.json").read_text(), nl=False)


def _named(word: str) -> list[str]:
    """Returns the tasks of a `--task`: several with commas between them, unless that is a file's name."""
    return [word] if Path(word).exists() else [task for name in word.split(",") if (task := name.strip())]


def _suite(
    file: Path,
    checkpoints: str | None,
    parameters: dict[str, Any],
    credentials: Credentials,
    console: Terminal,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Runs a suite to its leaderboard.

    Raises:
        SystemExit: It is not complete, or its gate is not met.
    """
    from orchestrator.suite import bucket, dry_run as sizes, run as suites
    from orchestrator.suite.checkpoint_store import checkpoints_of
    from orchestrator.suite.file import SuiteFile, of_file

    taken = ("run", "until") if checkpoints is not None else ("run",)
    refuse([name for name in parameters if name not in taken], "beside --suite: write it into the file")
    folder = str(parameters["run"] or Path("runs") / file.stem)
    read = SuiteFile.read(file)
    suite = of_file(read, credentials, None if checkpoints is None else checkpoints_of(checkpoints).find()[0])
    if not any(cell.request.endpoint or cell.request.scorer or cell.request.stages for cell in suite.cells):
        refuse_dialling("an endpoint in the file")
    if dry_run:
        sizes.describe(suites.plan(suite, Path(folder)), console)
        return
    with bucket.kept(folder) as (local, guards):
        _run_suite(suite, (read, checkpoints, parameters["until"]), local, guards, console, credentials, as_json)


def _run_suite(
    suite: Suite,
    watched: tuple[SuiteFile, str | None, str | None],
    folder: Path,
    guards: Sequence[Guard],
    console: Terminal,
    credentials: Credentials,
    as_json: bool,
) -> None:
    from orchestrator.report import leaderboard
    from orchestrator.run.servers import raced
    from orchestrator.suite import outputs, run as suites, terminal, watch

    read, checkpoints, until = watched
    work: Coroutine[Any, Any, Record]
    if checkpoints is None:
        work = suites.run(suite, folder, console)
    else:
        watcher = watch.Watcher(read, checkpoints, folder, console, credentials)
        work = watcher.watch(watch.End.of(until), watch.Pages(folder, console))

    async def guarded() -> Record:
        return await raced(work, *(guard() for guard in guards))

    record = run_to_end(guarded())
    board = outputs.board_of(record, folder)
    page = leaderboard.save(board, folder)
    if not console.quiet:
        terminal.show(board, console)
        console.print(f"leaderboard: {page}", highlight=False, soft_wrap=True)
    if as_json:
        click.echo(orjson.dumps(board.as_json(), option=orjson.OPT_INDENT_2))
    if code := outputs.exit_code(record, board):
        click.echo(f"Error: {outputs.summary(record, board)}", err=True)
        raise SystemExit(code)
