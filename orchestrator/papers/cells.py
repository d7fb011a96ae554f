"""A run's own cells in a published table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import cache
from typing import Any

from orchestrator.benchmarks.registry import UnknownTaskError, find
from orchestrator.papers.tables import Column, Paper, Recipe, Table
from orchestrator.run_folder.metrics import MetricResult, metric_results
from orchestrator.run_folder.reader import Run


def made_by(paper: Paper, run: Run) -> list[str]:
    """Returns those of a paper's runs that a run is: of their task, and with their options."""
    return [name for name, recipe in paper.runs.items() if _fits(paper, recipe, run)]


def of_tasks(paper: Paper, table: Table, run: Run) -> bool:
    """Returns whether a run has the task of one of a table's columns, with any options."""
    return any(paper.runs[name].task in _names(run) for name in table.runs)


def found(paper: Paper, table: Table, models: Sequence[str], run: Run) -> list[MetricResult | None]:
    """Returns a run's metric for each column, None if the run lacks it."""
    results = {
        (metric.task, metric.name, tuple(sorted(metric.labels.items()))): metric
        for metric in metric_results(run.tasks_and_groups)
    }

    def of_column(column: Column) -> MetricResult | None:
        task = next((paper.runs[name].task for name in column.runs if name in models), "")
        return results.get((task, column.metric, tuple(sorted(column.labels.items()))))

    return [of_column(column) if column.measure == "metric" else None for column in table.columns]


SYNTHETIC = "synthetic rows"


def other_rows(run: Run) -> list[str]:
    """Returns in what a run's rows are not the paper's; empty if they are, as far as the run says."""
    origins = [data.get("origin", "") for data in (run.identity.get("data") or {}).values() if isinstance(data, dict)]
    rows = [SYNTHETIC] if any(origin.startswith("synthetic") for origin in origins) else []
    limit = run.identity.get("limit")
    return rows if limit is None else [*rows, f"the first {limit:,} rows alone"]


def _names(run: Run) -> set[str]:
    return {*run.tasks, *run.groups, *(name.partition("_")[0] for name in run.tasks if name.startswith("reform_"))}


def _fits(paper: Paper, recipe: Recipe, run: Run) -> bool:
    names = _names(run)
    if recipe.task not in names:
        return False
    identity, options = run.identity, dict(recipe.options)
    settings: Mapping[str, Any] = (identity.get("settings") or {}).get(recipe.task) or {}
    wanted = _settings(paper, recipe)
    return (
        identity.get("method", "generate") == options.get("method", "generate")
        and not identity.get("blind")
        and all(bool(identity.get(name)) == bool(options.get(name)) for name in ("parity", "shuffle_options"))
        and _thinking(identity) == options.get("thinking")
        and all(settings.get(name, value) == value for name, value in wanted.items())
    )


def _thinking(identity: Mapping[str, Any]) -> Any:
    return (identity.get("deviations") or {}).get("thinking")


def _settings(paper: Paper, recipe: Recipe) -> dict[str, Any]:
    """Returns the settings that tell a paper's runs apart, with their values in one of them."""
    settings = {name for other in paper.runs.values() for name in other.options.get("settings") or ()}
    our_settings = recipe.options.get("settings") or {}
    defaults = _defaults(recipe.task)
    return {name: our_settings.get(name, defaults[name]) for name in settings & defaults.keys() - _PARTS.keys()} | {
        name: value for name, value in our_settings.items() if name not in _PARTS
    }


_PARTS = {"questions": "fewer questions are asked, each in the same way"}
"""Settings that change no item, only how many there are."""


@cache
def _defaults(task: str) -> dict[str, Any]:
    try:
        settings = next(iter(find([task]).values())).settings()
    except UnknownTaskError:
        return {}
    return asdict(settings) if is_dataclass(settings) and not isinstance(settings, type) else {}
