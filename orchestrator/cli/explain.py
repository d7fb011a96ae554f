"""`orchestrator explain`: why the results of two runs differ."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

import click
import orjson

from lyncean.cli import Command, examples
from lyncean.cli.options import client_options
from lyncean.rpc import Credentials
from orchestrator.cli.folders import ReadRun
from orchestrator.cli.options import (
    OF_CODE,
    match_option,
    number,
    refuse,
    refuse_code,
    refuse_dialling,
    request_options,
    run_to_end,
    written,
)


class _RunOrLog(ReadRun):
    """A run folder to read, or a log of another tool, of which one is made for the time of the command."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns a path."""
        path = Path(str(value))
        if not path.is_file():
            return super().convert(value, param, ctx)
        from orchestrator.extensions import LOGS

        reader = next((one for one in map(LOGS.get, LOGS.names()) if one.is_log(path)), None)
        if reader is None and path.suffix == ".pkl":
            self.fail(f"{value} is a pickle, which can run any code when it is loaded: save it as a table", param, ctx)
        if reader is None:
            self.fail(f"{value} is neither a run folder nor a log of {', '.join(LOGS.names())}", param, ctx)
        folder = tempfile.TemporaryDirectory(prefix="lyncean-")
        if ctx:
            ctx.call_on_close(folder.cleanup)
        run = Path(folder.name) / path.stem
        reader.make_run(path, run)
        return run


_ASKING = ("endpoint", "scorer", "concurrency", "timeout", "patience", "judge", "judge_cache", *OF_CODE)


@click.command(
    "explain",
    cls=Command,
    epilog=examples(
        "orchestrator explain runs/first runs/second",
        "orchestrator explain runs/first runs/second --markdown why.md",
        "orchestrator explain runs/first runs/second --metric accuracy --metric accuracy.answered",
        "orchestrator explain runs/first runs/second --endpoint 127.0.0.1:50051",
    ),
)
@click.argument("first", type=_RunOrLog())
@click.argument("second", type=_RunOrLog())
@click.option("--task", "-t", "tasks", multiple=True, help="Only this task; repeatable.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME[.answered]",
    help="Metric, all samples or answered ones; a second one is that of SECOND. Default: the first.",
)
@match_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Also write a page to paste into an issue; - prints it instead of the tables.",
)
@number(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="Items to ask --endpoint again, up to five requests each.",
)
@request_options(*_ASKING, endpoint={"help": "Model servers H:P[,H:P] on which single causes are tried out."})
@client_options
def command(
    first: Path,
    second: Path,
    tasks: tuple[str, ...],
    metrics: tuple[str, ...],
    match: Literal["key", "row"] | None,
    as_json: bool,
    markdown: Path | None,
    limit: int,
    endpoint: tuple[str, ...],
    credentials: Credentials,
    **asking: Any,
) -> None:
    """Explain why the results of FIRST and SECOND differ, item by item.

    Each item that adds to the difference is put down to one cause: data, prompt, image, decoding, server, reading,
    aggregation, failure or noise. SECOND may be a log of another tool, as `import` takes it. With --endpoint, single
    causes are tried out on a live server.
    """
    from orchestrator.compare import explained
    from orchestrator.compare.explain import explain
    from orchestrator.run.console import Terminal

    if len(metrics) > 2:
        raise click.UsageError("--metric: give one for both runs, or one for each")
    if as_json and markdown == Path("-"):
        raise click.UsageError("--markdown - and --json both print: give --markdown FILE, or leave one out")
    if not endpoint:
        refuse(["limit", *_ASKING], "is for a live server: give --endpoint H:P, or leave it out")
        refuse_dialling("--endpoint")
    explanation, tried = explain(first, second, metrics, tasks, match=match), None
    if endpoint:
        if other := [
            task.task
            for task in explanation.tasks
            if task.sides[0].task != task.sides[1].task and not task.sides[1].imported
        ]:
            raise click.UsageError(f"--endpoint asks for items of one task, and {other[0]} are two: leave it out")
        from orchestrator.compare.experiment import experiment
        from orchestrator.run import foreign
        from orchestrator.run.request import RunRequest

        if asking["scorer"]:
            refuse_code()
        else:
            for folder in (first, second):
                foreign.of_run(folder, asking["include_path"] or (), trusted=asking["trust_task_code"])
        request = RunRequest(
            [task.sides[0].task for task in explanation.tasks], endpoint=endpoint, credentials=credentials, **asking
        )
        tried = run_to_end(experiment(explanation, request, limit, Terminal(stderr=True, markup=False)))
    if markdown:
        page = explained.markdown(explanation, tried)
        with written(markdown):
            if markdown == Path("-"):
                click.echo(page, nl=False)
                return
            markdown.write_text(page, encoding="utf-8")
    if as_json:
        click.echo(orjson.dumps(explained.as_json(explanation, tried), option=orjson.OPT_INDENT_2))
    else:
        explained.show(explanation, tried, Terminal(markup=False))
