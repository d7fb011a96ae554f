"""Runs of foreign tasks on rows in their schemas, for comparison with the harness's own evaluator."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.engine_cluster import environment, wait_for
from helpers.same_results import results_of
from lyncean_harnesses.library import harness
from orchestrator import evaluate
from orchestrator.api import MetricResult, Results

METHODS = {"generate_until": "generate", "multiple_choice": "likelihood", "loglikelihood": "likelihood"}


def stored(prefix: str, columns: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Draws each task's splits and stores them: by the harness's name of it, and the folder by ours."""
    import datasets

    from helpers import harness_rows

    data = {}
    for name, known in columns.items():
        config = harness(prefix).config(name)
        keys = ("training_split", "validation_split", "test_split", "fewshot_split")
        splits = [config.get(key) for key in keys] + [(config.get("fewshot_config") or {}).get("split")]
        rows = harness_rows.make(known["columns"], rows=8, seed=3)
        data[name] = datasets.DatasetDict({split: rows for split in splits if split})
        data[name].save_to_disk(folder / name)
    return {"splits": data, "paths": {f"{prefix}:{name}": str(folder / name) for name in data}}


def run_every_way(tasks: list[str], options: dict[str, Any], folder: Path) -> Results:
    """Runs tasks one request at a time, 64 at a time, and killed and resumed: the results are the same bytes."""
    one = evaluate(tasks, **options, concurrency=1, run=folder / "one")
    evaluate(tasks, **options, concurrency=64, run=folder / "many")
    killed_and_resumed(tasks, options, folder / "killed")
    written = {results_of(folder / name) for name in ("one", "many", "killed")}
    assert len(written) == 1
    return one


def compared_blind(tasks: list[str], options: dict[str, Any], ours: Results, folder: Path) -> set[str]:
    """Runs tasks without their images and compares; returns the tasks for which there are paired tests."""
    blind = evaluate(tasks, **options, blind=True, run=folder / "blind")
    assert {task: blind.counts[task]["planned"] for task in tasks} == {t: ours.counts[t]["planned"] for t in tasks}
    compared = ours.compare(blind)
    assert compared.write_page(folder / "compare.html").stat().st_size > 10_000
    return {pair.step.task for pairing in compared.details.pairings for pair in pairing.pairs}


def compare(ours: Results, reference: Mapping[str, Mapping[str, Any]], prefix: str) -> int:
    """Holds every metric against the harness's own; returns how many numbers were compared."""
    measured = overall(ours)
    differ, compared = [], 0
    for name, metrics in reference.items():
        for metric, value in metrics.items():
            result = measured.get((f"{prefix}:{name}", metric.removesuffix(",none")))
            if isinstance(value, (list, dict, str)) or value is None or math.isnan(float(value)):
                same = result is None or result.value is None
            else:
                compared += 1
                same = result is not None and result.value == float(value)
            if not same:
                differ.append((name, metric, value, result and result.value))
    assert not differ, differ
    return compared


def overall(results: Results) -> dict[tuple[str, str], MetricResult]:
    return {(metric.task, metric.name): metric for metric in results.metrics if not metric.labels}


def killed_and_resumed(tasks: list[str], options: dict[str, Any], run: Path) -> None:
    """Runs the command, kills it once it has some answers, and runs it again to the end."""
    args = [word for task in tasks for word in ("--task", task)]
    args += [word for task, path in options["data"].items() for word in ("--data", f"{task}={path}")]
    for option in ("method", "endpoint", "scorer"):
        args += [f"--{option}", options[option]]
    args += ["--trust-task-code"] * options.get("trust_task_code", False)
    command = [sys.executable, "-m", "orchestrator", "eval", *args, "--concurrency", "1", "--run", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    log = run / "responses.jsonl"
    wait_for(lambda: process.poll() is not None or (log.exists() and log.stat().st_size > 4000), seconds=300)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (run / "results.json").exists()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment())
