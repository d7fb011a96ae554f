"""Published metrics beside our own.

A benchmark offers them as `orchestrator/published/TASK.json`:

    {"source": "where the rows come from, and what is known to be wrong with them",
     "rows": [{"model": "BLIP-2", "metric": "AVR", "labels": {"pattern": "Quantities"}, "value": 24.17}]}

`metric` and `labels` are a metric's of results.json, `value` is in percent where that metric is a
fraction, else in its own unit. A task without a file has nothing published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import orjson

from orchestrator.run_folder.metrics import MetricResult


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One model's line; `own` is the run's."""

    model: str
    cells: Sequence[str]
    own: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """One table: the published rows and, first, the run's own."""

    title: str
    columns: Sequence[str]
    rows: Sequence[PublishedRow]
    source: str = ""


def tables(tasks: Sequence[str], metrics: Sequence[MetricResult]) -> list[Beside]:
    """Returns the tables of some tasks: the overall metrics, then each metric by each label."""
    result: list[Beside] = []
    for task in tasks:
        data = _read(task)
        if data:
            mine = {(metric.name, _labels(metric.labels)): metric for metric in metrics if metric.task == task}
            result += _tables(task, data, mine)
    return result


def _read(task: str) -> dict[str, Any]:
    folder = resources.files("orchestrator") / "published"
    file = folder / f"{task}.json"
    return dict(orjson.loads(file.read_bytes())) if file.is_file() else {}


Key = tuple[str, tuple[tuple[str, str], ...]]


def _labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def _tables(task: str, data: Mapping[str, Any], mine: Mapping[Key, MetricResult]) -> list[Beside]:
    # One table for the overall metrics; one for each metric and label it is sliced by.
    grouped: dict[tuple[str, ...], dict[Key, dict[str, float]]] = {}
    for row in data["rows"]:
        key = (row["metric"], _labels(row.get("labels") or {}))
        table = (row["metric"], *(name for name, _ in key[1])) if key[1] else ()
        grouped.setdefault(table, {}).setdefault(key, {})[row["model"]] = float(row["value"])
    result = []
    for table, columns in grouped.items():
        title = f"{task}: {table[0]} by {' × '.join(table[1:])}" if table else task
        names = [", ".join(value for _, value in labels) if labels else name for name, labels in columns]
        own = PublishedRow("", [_own_cell(mine.get(key)) for key in columns], own=True)
        models = dict.fromkeys(model for column in columns.values() for model in column)
        rows = [PublishedRow(model, [_cell(column.get(model)) for column in columns.values()]) for model in models]
        result.append(Beside(title, names, [own, *rows], str(data.get("source", "")) if not table else ""))
    return result


def _own_cell(metric: MetricResult | None) -> str:
    # A run of ten rows beside a paper's thousand: let it be seen.
    return "–" if metric is None else f"{metric.text(metric.value, 2)} n={metric.denominator:,}"


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
