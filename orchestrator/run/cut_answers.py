"""Counts the answers of a task that the output limit ended, and says what they leave open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.run_folder.cut import CutCount, cut_counts, total
from orchestrator.run_folder.lines import VerdictLine
from orchestrator.run_folder.metrics import MetricResult, metric_results, overall
from orchestrator.run_folder.notes import Note

_MOST_SENTENCES = 3
"""Tasks with cut answers that get a sentence each; of more the counts are listed in one."""


class CutAnswers:
    """Counts the cut answers of one task."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forgets what was counted: the verdicts follow from the first on."""
        self._planned = self._cut = 0

    def add(self, line: VerdictLine) -> None:
        """Adds the verdict of an item."""
        self._planned += 1
        self._cut += line.is_cut

    def summary(self) -> dict[str, Any]:
        """Returns `cut` of a task in results.json: how many items, and their share of all planned."""
        return {"items": self._cut, "share": round(self._cut / max(1, self._planned), 6)}


def notes(tasks: Mapping[str, Mapping[str, Any]]) -> list[Note]:
    """Returns the notes on the cut answers in the results of tasks; none where no answer is cut."""
    cut = {task: count for task, count in cut_counts(tasks).items() if count.items}
    if len(cut) <= _MOST_SENTENCES:
        return [_note(task, count, tasks[task]) for task, count in cut.items()]
    worst = sorted(cut.items(), key=lambda pair: -pair[1].share)
    text = f"the output limit cut the answers of {total(cut)} of {len(cut)} tasks"
    text += f": {', '.join(f'{task} {count}' for task, count in worst)}"
    return [Note("cut", text, comparison=_comparison(f"{total(cut).items:,} cut answers"))]


def _note(task: str, count: CutCount, results: Mapping[str, Any]) -> Note:
    text = f"{task}: the output limit cut the answers of {count}"
    heads = (metric for metric in overall(metric_results({task: results})) if metric.cut)
    differs = _comparison(f"{count.items:,} cut answers of {task}")
    return Note("cut", f"{text}{_open(next(heads, None))}", task, comparison=differs)


def _comparison(differs: str) -> dict[str, str]:
    return {"differs": differs, "sentence": "a difference may be one of the output limit"}


def _open(metric: MetricResult | None) -> str:
    """Returns what is open of a metric in words: "; accuracy is 100.0 of the 26 whole ones, ...", "" for none."""
    if metric is None or metric.cut is None:
        return ""
    band = metric.cut
    others = f"{metric.text(band.whole)} of the {band.denominator:,} others, and " if band.denominator else ""
    return f"; {metric.name} is {others}without a limit between {metric.text(band.low)} and {metric.text(band.high)}"
