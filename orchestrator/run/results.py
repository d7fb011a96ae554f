"""From verdicts to figures: one pass over the log, in an order that depends on the keys alone."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from google.protobuf import json_format

from lyncean.outcomes import Outcome
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.engine.scoring import ScorerClient
from orchestrator.errors import EngineError
from orchestrator.run_folder import manifest as run_manifest
from orchestrator.run_folder.key_table import digest
from orchestrator.run_folder.log import VERDICTS, damaged, scan
from orchestrator.run_folder.records import pass_through

RESULTS = "results.json"


async def write(run: Path, manifest: Mapping[str, Any], client: ScorerClient) -> dict[str, Any]:
    """Writes `results.json` and returns it: the same bytes for the same verdicts, in whatever order they came.

    Args:
        run: The run folder, every item settled.
        manifest: Its manifest, `planned` among it.
        client: The scorer.

    Raises:
        EngineError: If an item is missing, or the scorer finds one at fault.
        IncompleteError: If the scorer goes away.
        RunLogError: If a verdict's line is damaged.
        RunWriteError: If the file cannot be written.
    """
    verdicts = run / VERDICTS
    offsets = last_lines(verdicts)
    for task, planned in manifest["planned"].items():
        settled = len(offsets.get(task, ()))
        if settled != planned:
            raise EngineError(f"{verdicts} settles {settled:,} items of {task}, {planned:,} were planned: a defect")
    rules: set[str] = set()
    tasks = {}
    for task, specs in sorted(run_manifest.specs_of(manifest).items()):
        items = partial(_items, verdicts, offsets.get(task, np.zeros(0, np.int64)), rules)
        tasks[task] = summary_json(await client.summarize(items, specs))
    results = {
        "tasks": tasks,
        "model": {name: manifest["identity"]["model"][name] for name in ("model_name", "model_revision")},
        "rules": {name: sha256 for name, sha256 in manifest["rules"].items() if name in rules},
        "manifest_sha256": manifest["identity_sha256"],
    }
    run_manifest.write(run / RESULTS, results)
    return results


def failed(results: Mapping[str, Any]) -> int:
    """Returns how many items of all tasks failed; another try may answer them."""
    return sum(task["counts"]["failed"] for task in results["tasks"].values())


def summary_json(summary: scorer.Summary) -> dict[str, Any]:
    """Returns a summary as JSON: the proto's field names, every field present, counts as numbers."""
    return {"counts": _counts(summary.counts), "figures": [_figure(figure) for figure in summary.figures]}


def last_lines(path: Path) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Returns, by task, where the last line of each key begins, sorted by the keys' hashes."""
    lows, highs, starts, tasks = array("Q"), array("Q"), array("q"), array("i")
    names: dict[bytes, int] = {}
    for key, _, start in scan(path):
        halves = digest(key)
        lows.append(halves[0])
        highs.append(halves[1])
        starts.append(start)
        tasks.append(names.setdefault(key.partition(b"/")[0], len(names)))
    # Stable: lines of one key keep their order, so that the last stands last.
    order = np.lexsort((np.frombuffer(highs, np.uint64), np.frombuffer(lows, np.uint64)))
    low, high = np.frombuffer(lows, np.uint64)[order], np.frombuffer(highs, np.uint64)[order]
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    del lows, highs, low, high
    order = order[last]
    offset, task = np.frombuffer(starts, np.int64)[order], np.frombuffer(tasks, np.int32)[order]
    return {name.decode(): offset[task == number] for name, number in names.items()}


def _items(path: Path, offsets: np.ndarray[Any, np.dtype[np.int64]], rules: set[str]) -> Iterator[scorer.ScoreRequest]:
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(int(offset))
            try:
                line = orjson.loads(file.readline())
                request = pass_through(line)
            except (ValueError, KeyError, TypeError) as error:
                raise damaged(path, int(offset), error) from error
            rules.add(line["rule"])
            yield request


def _counts(counts: scorer.Counts) -> dict[str, int]:
    return {name: getattr(counts, name) for name in ("planned", *(outcome.value for outcome in Outcome))}


def _figure(figure: scorer.Figure) -> dict[str, Any]:
    line: dict[str, Any] = {
        "name": figure.name,
        "metric": figure.metric,
        "labels": dict(figure.labels),
        "value": _number(figure, "value"),
        "value_answered": _number(figure, "value_answered"),
        "denominator": figure.denominator,
        "denominator_answered": figure.denominator_answered,
        "unit": figure.unit,
        "counts": _counts(figure.counts),
        "details": json_format.MessageToDict(figure.details),
    }
    if figure.HasField("interval"):
        interval = figure.interval
        line["interval"] = {
            "low": interval.low,
            "high": interval.high,
            "level": interval.level,
            "method": interval.method,
        }
    return line


def _number(figure: scorer.Figure, field: str) -> float | None:
    value: float = getattr(figure, field)
    return value if figure.HasField(field) and math.isfinite(value) else None  # type: ignore[arg-type]
