"""Runs of two tasks and of a group of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from helpers.report_runs import Writer

TASKS = ("lmms:few", "lmms:many")


def grouped_run(path: Path, few: list[float], many: list[float], why: str = "") -> Path:
    """Writes a run of two tasks and of a group that weighs them alike; `why` leaves its metric undefined."""
    writer = Writer(path, model=path.name, tasks=list(TASKS), data={})
    for task, scores in zip(TASKS, (few, many), strict=True):
        for index, score in enumerate(scores):
            writer.item(f"{task}/{index}", answer="1", score=score, rule="harness_task")
    writer.close()
    results = orjson.loads((path / "results.json").read_bytes())
    for task, scores in zip(TASKS, (few, many), strict=True):
        line = results["tasks"][task]["metrics"][0]
        line |= {"name": "acc", "metric": "harness_task", "value": sum(scores) / len(scores), "unit": ""}
    value = (sum(few) / len(few) + sum(many) / len(many)) / 2
    metric: dict[str, Any] = {
        "name": "acc", "metric": "harness_group", "labels": {}, "value": None if why else value,
        "value_answered": value, "denominator": len(few) + len(many), "denominator_answered": len(few) + len(many),
        "unit": "", "details": {"not_computed": why} if why else {"weights": dict.fromkeys(TASKS, 0.5)},
        "interval": {"low": value - 0.1, "high": value + 0.1, "level": 0.95, "method": "bootstrap"},
    }  # fmt: skip
    results["groups"] = {"lmms:all": {"tasks": list(TASKS), "counts": {}, "metrics": [metric]}}
    (path / "results.json").write_bytes(orjson.dumps(results))
    return path


def two_runs(folder: Path) -> tuple[Path, Path]:
    """Writes two runs of the group; the second is worse in one task and better in the other."""
    return (
        grouped_run(folder / "before", [0.0, 1.0], [1.0, 1.0, 1.0, 0.0]),
        grouped_run(folder / "after", [0.0, 0.0], [1.0, 1.0, 1.0, 1.0]),
    )
