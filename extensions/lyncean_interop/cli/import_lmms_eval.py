"""`orchestrator import lmms-eval SAMPLES.jsonl`: an existing run of lmms-eval, in either reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lyncean.cli import Command, client_options
from lyncean.rpc import Credentials
from lyncean_interop.cli import import_answers
from orchestrator.cli import RunFolder, refuse, request_options, run_to_end, scorer_at


@click.command("lmms-eval", cls=Command)
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--task", help="The task; default: from the file name (DATE_samples_TASK.jsonl).")
@click.option(
    "--data", help="The benchmark's data, as for `eval`: categories and options of ours, the own code of other tasks."
)
@click.option("--model", help="Model name; default: the name of the file's folder.")
@click.option(
    "--reading",
    type=click.Choice(["careful", "parity", "both"]),
    default="both",
    show_default=True,
    help="Score by the default rules, by lmms-eval's, or both.",
)
@click.option("--run", type=RunFolder(), help="Run folder; default: runs/FILE.")
@request_options("scorer", "include_path", "trust_task_code", "settings")
@client_options
def command(
    credentials: Credentials,
    path: Path,
    task: str | None,
    data: str | None,
    model: str | None,
    reading: str,
    run: Path | None,
    scorer: str | None,
    **code: Any,
) -> None:
    """Score a samples file of lmms-eval (--log_samples), beside lmms-eval's own scores.

    V*-Bench and VisualPuzzles have two readings: the careful one's metrics are the run folder's, the parity reading's
    are in its folder `parity`. Any other task is scored by its own code with --data, and by our rules without.
    Requests that failed in lmms-eval count as failed, never as answers.
    """
    from lyncean_interop import lmms_eval_samples

    if not lmms_eval_samples.is_ours(path, task):
        refuse(["reading"], "is for V*-Bench and VisualPuzzles: leave it out")
        bridged = import_answers.bridged_task("lmms", data, **code)
        of_file = {"task": task, "model": model}
        run_to_end(
            import_answers.score(path, "lmms_eval_answers", bridged, **of_file, run=run, at=scorer, by=credentials)
        )
        return
    refuse(
        ["include_path", "trust_task_code", "settings"],
        "is for other tasks than V*-Bench and VisualPuzzles: leave it out",
    )
    endpoint = scorer_at(scorer)
    folder = run or Path("runs") / path.stem

    async def work() -> None:
        from lyncean_interop.lmms_eval_import import take
        from orchestrator.report import Reports, described_readings
        from orchestrator.run import (
            LocalServers,
            Terminal,
            check_metrics,
            check_results,
            connect_scorer,
            score_again,
            write_reported,
        )

        planned, scores = take(path, folder, task=task, data=data, model_name=model)
        folders = []
        async with LocalServers() as local:
            for name in ("careful", "parity") if reading == "both" else (reading,):
                async with connect_scorer(endpoint, credentials, 600.0, local=local) as (client, rules):
                    scored = await score_again(folder, client, rules, parity=name == "parity")
                click.echo(f"{name:<8} {_accuracies(scored)}")
                Reports().finish(scored, Terminal(quiet=True, markup=False))
                check_metrics(scored)
                folders.append(scored)
            if scores:
                reported = {key: (score, "") for key, score in scores.items()}
                async with connect_scorer(endpoint, credentials, 600.0, local=local) as (client, _):
                    await write_reported(folder, client, "lmms-eval", reported)
        click.echo(f"theirs   {_mean(list(scores.values()), planned)}")
        if reading == "both":
            click.echo("\n".join(described_readings(folder)))
        click.echo(f"run: {folder}")
        for scored in folders:
            check_results(scored)

    run_to_end(work())


def _accuracies(scored: Path) -> str:
    from orchestrator.run import read_results

    (task,) = read_results(scored)["tasks"].values()
    counts = ", ".join(f"{number} {name}" for name, number in task["counts"].items() if number and name != "planned")
    values = [
        f"{' '.join(metric['labels'].values()) or 'accuracy'} {metric['value']:.2f}"
        for metric in task["metrics"]
        if metric["name"] == "accuracy" and metric["value"] is not None
    ]
    return f"{', '.join(values)} (percent of all; {counts})"


def _mean(scores: list[float], planned: int) -> str:
    if not scores:
        return "the file holds no scores"
    mean = f"accuracy {100 * sum(scores) / len(scores):.2f}"
    return mean if len(scores) == planned else f"{mean} over the {len(scores)} of {planned} samples that have a score"
