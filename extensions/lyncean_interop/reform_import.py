"""A run folder from a prediction file of ReForm-Eval, scored as its own script does."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import PLAIN, Credentials
from lyncean.vocabulary import Outcome
from lyncean_interop.answers import NOT_ANSWERED
from lyncean_interop.reform_predictions import Prediction, named_by, predictions, read_file
from orchestrator.benchmarks.reform import reform_metrics
from orchestrator.engine import Endpoint
from orchestrator.run import connect_scorer, read_results, score_again
from orchestrator.run_folder import (
    MANIFEST,
    ManifestError,
    RunLog,
    check_same,
    make_manifest,
    read_manifest,
    scoring_json,
    write_json,
)


async def import_predictions(
    file: Path,
    run: Path,
    formulation: str,
    method: str,
    *,
    stability: bool = False,
    rounds: bool = False,
    task: str | None = None,
    model_name: str | None = None,
    endpoint: Endpoint | None = None,
    credentials: Credentials = PLAIN,
    patience: float = 600.0,
) -> dict[str, Any]:
    """Creates a run from a prediction file, scores it and returns its results.

    The formulation is one of `FORMULATIONS`, the method one of `METHODS`; the file's
    name has task and model unless they are set. Without the endpoint of a scorer one is started.

    Raises:
        DataError: The file cannot be used.
        ManifestError: The folder holds another run.
    """
    named_task, named_model = named_by(file)
    task, model_name = task or named_task, model_name or named_model
    items = list(predictions(read_file(file), formulation, method, rounds=rounds))
    identity = {
        "tasks": [task],
        "method": "likelihood" if method == "likelihood" else "generate",
        "predictions": {"origin": file.name, "sha256": sha256(file.read_bytes()).hexdigest()},
        "formulation": formulation,
        "parity": True,
        "model": {"model_name": model_name, "model_revision": "", "chat_template_sha256": ""},
    }
    async with connect_scorer(endpoint, credentials, patience) as (client, rules):
        manifest = make_manifest(
            identity,
            info=model.GetModelInfoResponse(model_name=model_name),
            stages={},
            replicas=[],
            rules=rules,
            metrics={task: reform_metrics(formulation, parity=True, instability=stability, rounds=rounds)},
            shard=None,
            code={},
        )
        _write(run, manifest | {"planned": {task: len(items)}}, items)
        await score_again(run, client, rules, parity=False)
    return read_results(run)


def _write(run: Path, manifest: dict[str, Any], items: list[Prediction]) -> None:
    """Writes manifest and answers; keeps the answers of a folder that already holds the same predictions."""
    file, identity = run / MANIFEST, manifest["identity"]
    if file.exists():
        check_same(run, read_manifest(run), identity, None)
    log = RunLog(run)
    try:
        if log.resumed and not file.exists():
            raise ManifestError(f"{run} holds answers and no {MANIFEST}: give --run another folder")
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for item in items[log.resumed :]:
            key = f"{identity['tasks'][0]}/{item.key}"
            outcome = Outcome.FAILED if item.text is None else None
            log.add_response(key, outcome, _line(key, item, identity, now))
        log.flush()
        log.sync()
    finally:
        log.close()
    write_json(file, manifest)


def _line(key: str, item: Prediction, identity: dict[str, Any], now: str) -> bytes:
    answer: dict[str, Any] = {
        "response": {"parts": [{"text": item.text}], "finish_reason": "FINISH_REASON_UNSPECIFIED"}
    }
    if item.text is None:
        answer = {"error": {"code": "", "reason": "request_failed", "message": NOT_ANSWERED}}
    messages = [{"role": "ROLE_USER", "parts": [{"text": item.prompt}]}] if item.prompt else []
    return orjson.dumps(
        {
            "key": key,
            **({"outcome": "failed"} if item.text is None else {}),
            "sample": key,
            "turn": "",
            "task": identity["tasks"][0],
            "method": identity["method"],
            "request": {"messages": messages},
            **answer,
            "scoring": scoring_json(item.scoring),
            "replica": "",
            "attempts": 0,
            "seconds": 0.0,
            "started": now,
        }
    )
