"""Hugging Face's `.eval_results/*.yaml`: results for a model's page and a benchmark's leaderboard on the hub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import yaml

from lyncean_interop import facts
from orchestrator import ConfigError
from orchestrator.run_folder import Run, metric_results, overall

if TYPE_CHECKING:
    from huggingface_hub import EvalResultEntry

_FACTS = ("dataset", "task", "source")


def write(runs: Sequence[Run], file: TextIO, about: Sequence[str]) -> None:
    """Writes an entry for each task of each run: its first overall metric, fractions as percent.

    Args:
        runs: The runs.
        file: Target file.
        about: `dataset=OWNER/NAME` for data that were not read from the hub, `task=ID` if the hub has another
            name for the task, `source=URL` of a page about the evaluation.

    Raises:
        ConfigError: A run is not a result of the benchmark (synthetic, blind, limited, incomplete), or lacks a fact.
    """
    known = facts.parse(about, _FACTS)
    try:
        from huggingface_hub import eval_result_entries_to_yaml
    except ImportError as error:
        raise ConfigError("--format eval-results needs a newer huggingface_hub: upgrade it") from error
    entries = [_entry(run, task, known) for run in runs for task in run.tasks or run.identity.get("tasks") or ()]
    yaml.safe_dump(eval_result_entries_to_yaml(entries), file, sort_keys=False, allow_unicode=True)


def _entry(run: Run, task: str, known: dict[str, str]) -> EvalResultEntry:
    from huggingface_hub import EvalResultEntry

    if why := facts.caveats(run, task):
        raise ConfigError(f"{run.name}, {task}: no result to publish as the benchmark's: {'; '.join(why)}")
    dataset, revision = facts.hub_source(run, task)
    dataset = known.get("dataset", dataset)
    if not dataset:
        origin = facts.source(run, task)[0]
        raise ConfigError(
            f"{run.name}, {task}: its data ({origin}) name no data set of the hub: add --about dataset=OWNER/NAME"
        )
    metrics = [metric for metric in overall(metric_results({task: run.tasks[task]})) if metric.value is not None]
    if not metrics:
        raise ConfigError(f"{run.name}, {task}: it has no overall metric")
    metric = metrics[0]
    value = metric.value or 0.0
    notes = [f"{metric.name} of all {metric.denominator:,} items{metric.suffix and f' in {metric.suffix}'}"]
    notes += [f"{100 * metric.level:g}% CI {metric.interval}"] if metric.interval else []
    return EvalResultEntry(
        dataset_id=dataset,
        task_id=known.get("task", task),
        value=round(100 * value if metric.unit == "fraction" else value, 4),
        dataset_revision=revision or None,
        date=str(run.manifest.get("created") or "") or None,
        source_url=known.get("source"),
        notes=", ".join([*notes, *facts.cut(run, task), *facts.settings(run), f"Lyncean {facts.library(run)}"]),
    )
