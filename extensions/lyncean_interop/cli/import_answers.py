"""`orchestrator import inspect|lm-eval|vlmevalkit FILE`: answers of other tools, scored by our rules beside theirs."""

from __future__ import annotations

from pathlib import Path

import click

from lyncean.cli import Command, client_options
from lyncean.rpc import Credentials
from orchestrator.cli import RunFolder, request_options, run_to_end, scorer_at


def _command(name: str, module: str, what: str) -> click.Command:
    """Returns the command that takes one tool's file and has a module's `read` read it."""

    @click.command(name, cls=Command, help=what)
    @click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
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
    ) -> None:
        endpoint = scorer_at(scorer)
        folder = run or Path("runs") / path.resolve().stem

        async def work() -> None:
            from lyncean_interop import answers
            from lyncean_interop.reading import read_answers
            from orchestrator.report import Reports
            from orchestrator.run import (
                Terminal,
                check_metrics,
                check_results,
                connect_scorer,
                score_again,
                write_reported,
            )

            imported = read_answers(module, path, task, model)
            answers.take(imported, path, folder)
            async with connect_scorer(endpoint, credentials, 600.0) as (client, rules):
                await score_again(folder, client, rules, parity=False)
                if scores := answers.reported(imported):
                    await write_reported(folder, client, imported.tool, scores)
                Reports().finish(folder, Terminal(markup=False))
                check_metrics(folder)
            click.echo("\n".join(answers.beside(imported, folder)))
            click.echo(f"run: {folder}")
            check_results(folder)

        run_to_end(work())

    return command


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
vlmevalkit = _command(
    "vlmevalkit",
    "vlmevalkit_import",
    "Score predictions of VLMEvalKit (a table, TSV or XLSX) by our rules, beside the column hit.",
)
