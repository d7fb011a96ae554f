"""`orchestrator import reform`: scores predictions made with ReForm-Eval's data loader, as its own script does."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import Credentials
from lyncean.rpc.options import SECONDS, client_options
from orchestrator.benchmarks.reform.datasets import SINGLE_CHOICE
from orchestrator.benchmarks.reform.metrics import metrics
from orchestrator.benchmarks.reform.predictions import (
    FORMULATIONS,
    METHODS,
    Prediction,
    named_by,
    predictions,
    read_file,
)
from orchestrator.cli.eval import one_endpoint
from orchestrator.cli.folders import RunFolder
from orchestrator.cli.outcome import guarded
from orchestrator.cli.unused import refuse_dialling


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to score.

    Attributes:
        file: The prediction file.
        formulation: One of `FORMULATIONS`.
        method: "generation" or "likelihood".
        stability: Whether instability is wanted.
        rounds: Whether the course over rounds is wanted.
        task: Task to file it under; None as the file's name says.
        model: Model to file it under; likewise.
    """

    file: Path
    formulation: str
    method: str
    stability: bool = False
    rounds: bool = False
    task: str | None = None
    model: str | None = None


@click.command("reform")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PREDICTIONS.json")
@click.option("--formulation", type=click.Choice(FORMULATIONS), required=True)
@click.option("--infer", type=click.Choice(METHODS), default="generation", show_default=True)
@click.option("--stability", is_flag=True, help="Instability over the tests of each sample (SingleChoice).")
@click.option("--multi-round", is_flag=True, help="Correlation and slope of the score over rounds (SingleChoice).")
@click.option("--task", help="Task to file the run under; default as the file's name says.")
@click.option("--model", help="Model to file the run under; default as the file's name says.")
@click.option("--run", type=RunFolder(), help="Run folder; default runs/FILE.")
@click.option("--scorer", "scorer_at", help="Scorer H:P; without it one is started.")
@click.option("--patience", type=SECONDS, default=600.0, show_default=True, help="Seconds to retry for.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")
@client_options
def command(credentials: Credentials, **given: Any) -> None:
    """Score a prediction file of ReForm-Eval with its own rules, bit for bit, and make a run of it."""
    if given["formulation"] != SINGLE_CHOICE:
        for name in ("stability", "multi_round"):
            if given[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --formulation {SINGLE_CHOICE}")
        if given["infer"] == "likelihood":
            raise click.UsageError(f"--infer likelihood needs --formulation {SINGLE_CHOICE}")

    if not given["scorer_at"]:
        refuse_dialling("--scorer")
    wanted = Wanted(
        given["file"],
        given["formulation"],
        given["infer"],
        given["stability"],
        given["multi_round"],
        given["task"],
        given["model"],
    )
    run: Path = given["run"] or Path("runs") / given["file"].stem

    async def work() -> Path:
        from orchestrator.run import evaluate

        await imported(wanted, run, one_endpoint(given["scorer_at"]), credentials, given["patience"])
        evaluate.finish(run, Console(quiet=given["quiet"], markup=False))
        return run

    sys.exit(guarded(work)[1])


async def imported(
    wanted: Wanted,
    run: Path,
    endpoint: Any = None,
    credentials: Credentials | None = None,
    patience: float = 600.0,
) -> dict[str, Any]:
    """Makes a run of a prediction file, scores it and returns its results.

    Args:
        wanted: What to score.
        run: The run folder.
        endpoint: The scorer's; None starts one.
        credentials: How to reach it; None for none.
        patience: Seconds to retry for.

    Raises:
        DataError: The file cannot be used.
        ManifestError: The folder holds another run.
    """
    from orchestrator.run import evaluate, rescore
    from orchestrator.run import results as run_results
    from orchestrator.run_folder import manifest as run_manifest

    file = wanted.file
    task, name = named_by(file)
    task, name = wanted.task or task, wanted.model or name
    made = list(predictions(read_file(file), wanted.formulation, wanted.method, rounds=wanted.rounds))
    identity = {
        "tasks": [task],
        "method": "likelihood" if wanted.method == "likelihood" else "generate",
        "predictions": {"origin": file.name, "sha256": sha256(file.read_bytes()).hexdigest()},
        "formulation": wanted.formulation,
        "parity": True,
        "model": {"model_name": name, "model_revision": "", "chat_template_sha256": ""},
    }
    async with evaluate.connect_scorer(endpoint, credentials or Credentials(), patience) as (client, rules):
        manifest = run_manifest.make(
            identity,
            info=model.GetModelInfoResponse(model_name=name),
            stages={},
            replicas=[],
            rules=rules,
            metrics={
                task: metrics(wanted.formulation, parity=True, instability=wanted.stability, rounds=wanted.rounds)
            },
            shard=None,
            code={},
        )
        _write(run, manifest | {"planned": {task: len(made)}}, task, identity["method"], made)
        await rescore.rescore(run, client, rules, parity=False)
    results: dict[str, Any] = orjson.loads((run / run_results.RESULTS).read_bytes())
    return results


def _write(run: Path, manifest: dict[str, Any], task: str, method: Any, made: list[Prediction]) -> None:
    """Writes manifest and answers; a folder that holds the same predictions already keeps its answers."""
    from orchestrator.run_folder import manifest as run_manifest
    from orchestrator.run_folder.log import RunLog

    file = run / run_manifest.MANIFEST
    if file.exists():
        run_manifest.check_same(run, run_manifest.read(run), manifest["identity"], None)
    log = RunLog(run)
    try:
        if log.resumed and not file.exists():
            raise run_manifest.ManifestError(f"{run} holds answers and no manifest.json: give --run another folder")
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for item in made[log.resumed :]:
            key = f"{task}/{item.key}"
            log.add_response(key, None, _line(key, item, task, method, now))
        log.flush()
        log.sync()
    finally:
        log.close()
    run_manifest.write(file, manifest)


def _line(key: str, item: Prediction, task: str, method: str, now: str) -> bytes:
    from orchestrator.run_folder.records import scoring_json

    asked = [{"role": "ROLE_USER", "parts": [{"text": item.prompt}]}] if item.prompt else []
    return orjson.dumps(
        {
            "key": key,
            "sample": key,
            "turn": "",
            "task": task,
            "method": method,
            "request": {"messages": asked},
            "response": {"parts": [{"text": item.text}], "finish_reason": "FINISH_REASON_UNSPECIFIED"},
            "scoring": scoring_json(item.scoring),
            "replica": "",
            "attempts": 0,
            "seconds": 0.0,
            "started": now,
        }
    )
