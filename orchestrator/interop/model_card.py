"""A table for a model card: one line for each overall metric, with what a reader needs to judge it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from orchestrator.interop import facts
from orchestrator.interop.tables import escape
from orchestrator.run_folder.metrics import metric_results, overall
from orchestrator.run_folder.reader import Run

_HEAD = ("Benchmark", "Model", "Metric", "Value", "95% CI", "n", "Notes")


def write(runs: Sequence[Run], file: TextIO) -> None:
    """Writes the table, and below it how each run can be repeated."""
    file.write(f"| {' | '.join(_HEAD)} |\n|---|---|---|---:|---:|---:|---|\n")
    for run in runs:
        for metric in overall(metric_results(run.tasks_and_groups)):
            notes = [*facts.caveats(run, metric.task), *facts.settings(run)]
            notes += ["less is better"] if metric.less_is_better else []
            value = f"{metric.text(metric.value)}{metric.suffix and f' {metric.suffix}'}"
            cells = (metric.task, run.model_name, metric.name, value, metric.interval or "–", f"{metric.denominator:,}")
            file.write(f"| {' | '.join(map(escape, (*cells, '; '.join(notes))))} |\n")
    for run in runs:
        revision = str(run.model.get("model_revision") or "unknown revision")
        about = f"{escape(run.model_name)} ({escape(revision)}), Lyncean {facts.library(run)}"
        file.write(f"\n{about}: `{facts.command(run)}`\n")
