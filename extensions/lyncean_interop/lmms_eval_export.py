"""The folder that lmms-eval writes: MODEL/DATE_results.json and MODEL/DATE_samples_TASK.jsonl."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

import orjson

from orchestrator.run_folder import (
    HIGHER_IS_BETTER,
    STEP,
    Item,
    MetricResult,
    Run,
    counts,
    epoch,
    metric_results,
    overall,
)

_UNSAFE = re.compile(r'["<>:/|\\?*\[\]\s]+')


def write(run: Run, folder: Path) -> list[Path]:
    """Writes a run below a folder and returns the paths of the files."""
    where = folder / (_UNSAFE.sub("__", run.model_name) or "model")
    where.mkdir(parents=True, exist_ok=True)
    date = datetime.fromtimestamp(epoch(run.manifest.get("created")), UTC).strftime("%Y%m%d_%H%M%S")
    written = [where / f"{date}_results.json"]
    written[0].write_bytes(orjson.dumps(_results(run, date), option=orjson.OPT_INDENT_2))
    files: dict[str, Any] = {}
    numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    try:
        for item in run:
            if item.outcome == STEP:
                continue
            if item.task not in files:
                written.append(where / f"{date}_samples_{_UNSAFE.sub('__', item.task)}.jsonl")
                files[item.task] = written[-1].open("wb")
            files[item.task].write(orjson.dumps(_sample(next(numbers[item.task]), item)) + b"\n")
    finally:
        for file in files.values():
            file.close()
    return written


def _results(run: Run, date: str) -> dict[str, Any]:
    metrics = list(metric_results(run.tasks_and_groups))
    planned = {task: counts({task: results})["planned"] for task, results in run.tasks.items()}
    return {
        "results": {task: {"alias": task, **_metrics(task, metrics)} for task in run.tasks_and_groups},
        **({"groups": {name: {"alias": name, **_metrics(name, metrics)} for name in run.groups}} if run.groups else {}),
        "configs": {task: {"task": task, "metadata": dict(run.identity)} for task in run.tasks},
        "versions": {task: str((run.manifest.get("versions") or {}).get("lyncean", "")) for task in run.tasks},
        "n-shot": dict.fromkeys(run.tasks, 0),
        "higher_is_better": {task: _directions(task, metrics) for task in run.tasks},
        "n-samples": {task: dict.fromkeys(("original", "effective"), planned[task]) for task in run.tasks},
        "config": {"model": "lyncean", "model_args": f"model={run.model_name}", "limit": run.identity.get("limit")},
        "date": date,
        "model_source": "lyncean",
        "model_name": run.model_name,
        "model_name_sanitized": _UNSAFE.sub("__", run.model_name),
    }


def _directions(task: str, metrics: list[MetricResult]) -> dict[str, bool]:
    mine = [metric for metric in overall(metrics) if metric.task == task]
    return {metric.name: HIGHER_IS_BETTER[metric.metric] for metric in mine if metric.metric in HIGHER_IS_BETTER}


def _metrics(task: str, metrics: list[MetricResult]) -> dict[str, float | str]:
    values: dict[str, float | str] = {}
    for metric in overall(metrics):
        if metric.task == task and metric.value is not None:
            values[f"{metric.name},none"] = metric.value
            # lmms-eval has a standard error in place of our interval: half the width of a 95 % interval over 1.96.
            values[f"{metric.name}_stderr,none"] = (
                (metric.high - metric.low) / 2 / NormalDist().inv_cdf((1 + metric.level) / 2)
                if metric.high is not None and metric.low is not None
                else "N/A"
            )
    return values


def _sample(number: int, item: Item) -> dict[str, Any]:
    messages = (item.response.get("request") or {}).get("messages", ())
    prompt = "\n".join(part["text"] for m in messages for part in m.get("parts", ()) if "text" in part)
    answer = (item.response.get("response") or {}).get("scores") or item.text
    return {
        "doc_id": number,
        "doc_hash": hashlib.sha256(orjson.dumps(messages)).hexdigest(),
        "input": prompt,
        "target": " | ".join(item.scoring.get("targets", ())),
        "resps": [[answer]],
        "filtered_resps": [str(item.verdict.get("extracted", ""))],
        "score": item.score_all,
        "outcome": item.outcome,
        "key": item.key,
        **dict(item.labels),
    }
