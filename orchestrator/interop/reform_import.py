"""A run folder from a prediction file of ReForm-Eval, scored as its own script does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import Credentials
from orchestrator.benchmarks.reform.metrics import metrics
from orchestrator.benchmarks.reform.predictions import (
    Prediction,
    named_by,
    predictions,
    read_file,
)


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
        patience: Seconds to retry.

    Raises:
        DataError: The file cannot be used.
        ManifestError: The folder holds another run.
    """
    from orchestrator.run import rescore
    from orchestrator.run import results as run_results
    from orchestrator.run.servers import connect_scorer
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
    async with connect_scorer(endpoint, credentials or Credentials(), patience) as (client, rules):
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
    return run_results.read(run)


def _write(run: Path, manifest: dict[str, Any], task: str, method: Any, made: list[Prediction]) -> None:
    """Writes manifest and answers; a folder that holds the same predictions already keeps its answers."""
    from orchestrator.run_folder import manifest as run_manifest
    from orchestrator.run_folder.files import MANIFEST
    from orchestrator.run_folder.log import RunLog

    file = run / MANIFEST
    if file.exists():
        run_manifest.check_same(run, run_manifest.read(run), manifest["identity"], None)
    log = RunLog(run)
    try:
        if log.resumed and not file.exists():
            raise run_manifest.ManifestError(f"{run} holds answers and no {MANIFEST}: give --run another folder")
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
