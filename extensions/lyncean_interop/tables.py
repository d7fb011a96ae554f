"""Results as Markdown and LaTeX tables with one column per run, as a table for a model card, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import orjson

from lyncean_interop import facts
from orchestrator.run_folder import (
    NO_RESULT,
    MetricResult,
    Run,
    accounting,
    counts,
    doubts,
    markdown_cell,
    metric_results,
    overall,
    slices,
)


def write_json(runs: Sequence[Run], file: TextIO) -> None:
    """Writes manifests and results."""
    content = [
        {"run": run.name, "path": str(run.path), "manifest": run.manifest, "results": run.results} for run in runs
    ]
    file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode() + "\n")


def write_markdown(runs: Sequence[Run], file: TextIO) -> None:
    """Writes a Markdown document."""
    file.write(markdown(runs))


def write_latex(runs: Sequence[Run], file: TextIO) -> None:
    """Writes LaTeX tables."""
    file.write(latex(runs))


def write_model_card(runs: Sequence[Run], file: TextIO) -> None:
    """Writes a line for each overall metric, with its context, and the command to repeat each run."""
    file.write("| Benchmark | Model | Metric | Value | 95% CI | n | Notes |\n|---|---|---|---:|---:|---:|---|\n")
    for run in runs:
        for metric in overall(metric_results(run.tasks_and_groups)):
            notes = [*facts.caveats(run, metric.task), *facts.cut(run, metric.task), *facts.settings(run)]
            notes += ["less is better"] if metric.less_is_better else []
            value = NO_RESULT if metric.void else f"{metric.text(metric.value)}{metric.suffix and f' {metric.suffix}'}"
            cells = (metric.task, run.model_name, metric.name, value, metric.interval or "–", f"{metric.denominator:,}")
            file.write(f"| {' | '.join(map(markdown_cell, (*cells, '; '.join(notes))))} |\n")
    for run in runs:
        revision = str(run.model.get("model_revision") or "unknown revision")
        about = f"{markdown_cell(run.model_name)} ({markdown_cell(revision)}), Lyncean {facts.library(run)}"
        file.write(f"\n{about}: `{facts.command(run)}`\n")


def markdown(runs: Sequence[Run]) -> str:
    """Returns a Markdown document: overall results, then a table for each slicing by one label."""
    blocks = []
    for title, rows in _tables(runs):
        head = [title, *(markdown_cell(run.name) for run in runs), "n"]
        lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(runs) + 1)]
        for name, cells, count in rows:
            shown = [cell.shown if cell else "–" for cell in cells]
            lines.append("| " + " | ".join([markdown_cell(name), *shown, count]) + " |")
        blocks.append("\n".join(lines))
    notes = [
        f"{markdown_cell(run.name)} ({markdown_cell(run.model_name)}): {markdown_cell(_accounted(run))}."
        for run in runs
    ]
    return "\n\n".join([*blocks, *notes]) + "\n"


def latex(runs: Sequence[Run]) -> str:
    """Returns LaTeX tables for the package booktabs, values with intervals beneath in small type."""
    blocks = []
    for title, rows in _tables(runs):
        lines = [
            "\\begin{tabular}{l" + "r" * (len(runs) + 1) + "}",
            "\\toprule",
            " & ".join([_tex(title), *(_tex(run.name) for run in runs), "$n$"]) + " \\\\",
            "\\midrule",
        ]
        for name, cells, count in rows:
            shown = [_tex_cell(cell) for cell in cells]
            lines.append(" & ".join([_tex(name), *shown, count.replace(",", "{,}")]) + " \\\\")
        blocks.append("\n".join([*lines, "\\bottomrule", "\\end{tabular}"]))
    notes = [f"% {run.name} ({run.model_name}): {_accounted(run)}".replace("\n", " ") for run in runs]
    return "\n\n".join([*blocks, "\n".join(notes)]) + "\n"


def _accounted(run: Run) -> str:
    line = accounting(counts(run.tasks)) if run.tasks else "not complete, no results yet"
    line += f"; not the benchmark's own decoding: {run.deviations}" if run.deviations else ""
    cut = [f"{task}: {sentence}" for task in run.tasks for sentence in facts.cut(run, task)]
    return "; ".join([line, *cut, *run.in_part, *doubts(run.tasks)])


def _tex_cell(metric: MetricResult | None) -> str:
    if metric is None:
        return "--"
    if metric.void:
        return NO_RESULT
    if metric.low is None:
        return metric.text(metric.value).replace("–", "--")
    return f"{metric.text(metric.value)} {{\\scriptsize {metric.interval}}}"


_TEX = str.maketrans({
    "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{", "}": "\\}",
    "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "×": "$\\times$", "–": "--", "\n": " ",
})  # fmt: skip


def _tex(text: str) -> str:
    return text.translate(_TEX)


Row = tuple[str, list[MetricResult | None], str]


def _tables(runs: Sequence[Run]) -> list[tuple[str, list[Row]]]:
    metrics = [list(metric_results(run.tasks_and_groups)) for run in runs]
    several = len({metric.task for run in metrics for metric in run}) > 1
    tables = [("metric", _rows([overall(run) for run in metrics], several))]
    sliced = [slices(run) for run in metrics]
    for task, name, labels in dict.fromkeys(key for run in sliced for key in run):
        if len(labels) == 1:
            title = f"{task}: {name} by {labels[0]}" if several else f"{name} by {labels[0]}"
            tables.append((title, _rows([run.get((task, name, labels), []) for run in sliced], False)))
    return [(title, rows) for title, rows in tables if rows]


def _rows(runs: Sequence[Sequence[MetricResult]], several: bool) -> list[Row]:
    by_key = [
        {(metric.task, metric.name, tuple(sorted(metric.labels.items()))): metric for metric in run} for run in runs
    ]
    rows: list[Row] = []
    for key in dict.fromkeys(key for run in by_key for key in run):
        cells = [run.get(key) for run in by_key]
        sizes = {cell.denominator for cell in cells if cell}
        first = next(cell for cell in cells if cell)
        name = first.slice or (f"{first.task}: {first.name}" if several else first.name)
        rows.append((name, cells, "–".join(f"{size:,}" for size in sorted(sizes))))
    return rows
