"""`orchestrator import inspect|lm-eval|nemo|... FILE`: answers of other tools, scored by our rules beside theirs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from lyncean.cli import Command
from lyncean.cli.options import client_options
from lyncean.rpc import Credentials
from orchestrator.cli.folders import RunFolder
from orchestrator.cli.options import request_options, run_to_end, scorer_at


def _command(name: str, module: str, what: str, *options: Callable[[Any], Any], folder: bool = False) -> click.Command:
    """Returns the command that takes one tool's files, or a folder with some, and has a module's `read` read them.

    Further options are further arguments of `read`.
    """

    @click.command(name, cls=Command, help=what)
    @click.argument("path", type=click.Path(exists=True, dir_okay=folder, path_type=Path))
    @_all(options)
    @click.option("--task", help="The task's name; default: as the file says.")
    @click.option("--model", help="Model name; default: as the file, its name or its folder says.")
    @click.option("--run", type=RunFolder(), help="Run folder; default: runs/FILE.")
    @request_options("scorer")
    @client_options
    def command(
        credentials: Credentials,
        path: Path,
        task: str | None,
        model: str | None,
        run: Path | None,
        scorer: str | None,
        **more: Any,
    ) -> None:
        endpoint = scorer_at(scorer)
        folder = run or Path("runs") / path.resolve().stem

        async def work() -> None:
            from orchestrator.interop import answers
            from orchestrator.run import evaluate, rescore
            from orchestrator.run.console import Terminal
            from orchestrator.run.servers import connect_scorer

            read: answers.Reader = importlib.import_module(f"orchestrator.interop.{module}").read
            imported = read(path, task, model, **more)
            answers.take(imported, path, folder)
            async with connect_scorer(endpoint, credentials, 600.0) as (client, rules):
                await rescore.rescore(folder, client, rules, parity=False)
                if scores := answers.reported(imported):
                    await rescore.write_reported(folder, client, imported.tool, scores)
                evaluate.finish(folder, Terminal(markup=False))
                evaluate.check_metrics(folder)
            click.echo("\n".join(answers.beside(imported, folder)))
            click.echo(f"run: {folder}")

        run_to_end(work())

    return command


def _all(options: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


inspect = _command(
    "inspect",
    "inspect_import",
    "Score a log of Inspect AI (.eval or .json) by our rules, beside its own scores. Needs 'lyncean[inspect]'.",
)
lm_eval = _command(
    "lm-eval",
    "lm_eval_import",
    "Score a samples file of lm-evaluation-harness (--log_samples) by our rules, beside its own metrics.",
)
nemo = _command(
    "nemo",
    "nemo_import",
    "Score the predictions of NeMo Evaluator (byob_predictions.jsonl, or an output folder with one file of answers) by "
    "our rules, beside its own scores.",
    folder=True,
)
opencompass = _command(
    "opencompass",
    "opencompass_import",
    "Score a prediction file of OpenCompass (predictions/MODEL/DATASET.json) by our rules, beside the verdicts in its "
    "folder results (--dump-eval-details).",
)
vlmevalkit = _command(
    "vlmevalkit",
    "vlmevalkit_import",
    "Score predictions of VLMEvalKit (a table, TSV or XLSX, or a pickle) by our rules, beside the column hit.",
    click.option(
        "--data",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="For a pickle, which holds answers alone: the benchmark's TSV, with questions and right answers.",
    ),
)
