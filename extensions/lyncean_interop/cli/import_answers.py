"""`orchestrator import inspect|lm-eval|vlmevalkit FILE`: answers of other tools, scored beside their own scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lyncean.cli import Command, client_options
from lyncean.rpc import Credentials
from orchestrator.cli import RunFolder, refuse, request_options, run_to_end, scorer_at

if TYPE_CHECKING:
    from lyncean_interop.bridged import Bridged


def _command(name: str, module: str, description: str, prefix: str = "") -> click.Command:
    """Returns the command that reads one tool's file by a module's `read`.

    Args:
        name: Name of the command.
        module: Module of this package.
        description: The command's help.
        prefix: Prefix of the tool's tasks, if their own code can score them.
    """

    @click.command(name, cls=Command, help=description)
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
        data: str | None = None,
        **code: Any,
    ) -> None:
        bridged = bridged_task(prefix, data, **code)
        run_to_end(score(path, module, bridged, task=task, model=model, run=run, at=scorer, by=credentials))

    return of_code(command) if prefix else command


def of_code(command: click.Command) -> click.Command:
    """Adds the options of scoring by a task's own code to a command."""
    added = request_options("include_path", "trust_task_code", "settings")(
        click.option("--data", help="The task's data as for `eval`: the task's own code scores, not our rules.")(
            command
        )
    )
    assert isinstance(added, click.Command), "options are added in place"
    return added


def bridged_task(
    prefix: str,
    data: str | None,
    include_path: Sequence[str] = (),
    *,
    trust_task_code: bool = False,
    settings: Sequence[str] = (),
) -> Bridged | None:
    """Returns the scoring by a task's own code, None without data.

    Raises:
        click.UsageError: Options of the code are used without data.
    """
    if data is None:
        refuse(
            ["include_path", "trust_task_code", "settings"], "is for the task's own code: give --data, or leave it out"
        )
        return None
    from lyncean_interop.bridged import Bridged

    return Bridged(prefix, data, tuple(include_path), trust_task_code, tuple(settings))


async def score(
    path: Path,
    module: str,
    bridged: Bridged | None,
    *,
    task: str | None,
    model: str | None,
    run: Path | None,
    at: str | None,
    by: Credentials,
) -> None:
    """Scores a tool's answers, by the task's own code if its data are known, and prints both results.

    Args:
        path: The file.
        module: Module of this package that reads it.
        bridged: The task's own code; None scores by our rules.
        task: The task's name, None for the name in the file.
        model: The model's name, likewise.
        run: Run folder.
        at: Address of a scorer; None starts one.
        by: Credentials for the scorer.
    """
    from lyncean_interop import answers, own_scores
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

    if bridged and at:  # the named scorer decides whether to trust the code
        bridged = replace(bridged, trusted=True)
    endpoint, folder = scorer_at(at), run or Path("runs") / path.resolve().stem
    imported = read_answers(module, path, task, model)
    if bridged is None:
        answers.check_options(imported, path)
        answers.take(imported, path, folder)
        scores, arguments = own_scores.reported(imported), list[str]()
    else:
        scores, arguments = bridged.take(imported, path, folder), bridged.arguments(imported.task)
    async with connect_scorer(endpoint, by, 600.0, arguments=arguments) as (client, rules):
        await score_again(folder, client, rules, parity=False)
        if scores:
            await write_reported(folder, client, imported.tool, scores, called=imported.metric)
        Reports().finish(folder, Terminal(markup=False))
        check_metrics(folder)
    click.echo("\n".join(own_scores.beside(imported, folder)))
    click.echo(f"run: {folder}")
    check_results(folder)


inspect = _command(
    "inspect",
    "inspect_import",
    "Score a log of Inspect AI (.eval or .json) by our rules, beside its own scores. Needs 'lyncean[inspect]'.",
)
lm_eval = _command(
    "lm-eval",
    "lm_eval_import",
    "Score a samples file of lm-evaluation-harness (--log_samples), beside its own metrics.",
    "lm-eval",
)
vlmevalkit = _command(
    "vlmevalkit",
    "vlmevalkit_import",
    "Score predictions of VLMEvalKit (a table, TSV or XLSX), beside the column hit.",
    "vlmevalkit",
)
