"""The answer that a report opens with: a card a task, with one metric, its slices and the way to what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from orchestrator.report.charts import percent, samples_link
from orchestrator.run_folder.metrics import MetricResult, headlines, slices
from orchestrator.run_folder.reader import Run

MOST = 12
"""Tasks that get a card each; more are quicker to read in a table."""

_MOST_BARS = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """One slice: its name, the length of its bar in percent, value, denominator and a link to its samples."""

    name: str
    length: float
    text: str
    n: int
    href: str


@dataclass(frozen=True, slots=True)
class Card:
    """A task's headline.

    Attributes:
        metric: The task's first metric, which the benchmark names first.
        label: The label that the bars are by, "" without bars.
        bars: The metric's slices.
        wrong: How many of its items are wrong.
        items: How many items it has.
        href: A link to those that are wrong.
    """

    metric: MetricResult
    label: str
    bars: Sequence[Bar]
    wrong: int
    items: int
    href: str


def item_labels(run: Run, result: MetricResult) -> dict[str, str]:
    """Returns the labels that all items of a metric have, as far as one value each tells it."""
    for spec in run.specs(result.task):
        if spec.get("name") == result.name:
            allowed = {label: known.get("values", ()) for label, known in (spec.get("where") or {}).items()}
            return {label: values[0] for label, values in allowed.items() if len(values) == 1}
    return {}


def cards(
    metrics: Sequence[MetricResult], labels: Mapping[str, Mapping[str, str]], wrong: Mapping[str, tuple[int, int]]
) -> list[Card]:
    """Returns a card for each task of a run, none if it has more than `MOST`.

    Args:
        metrics: The metrics of the run.
        labels: For each task the labels of its headline's items, as `item_labels` returns them.
        wrong: For each task how many of these items are wrong, and how many there are.
    """
    heads = headlines(metrics)
    if len(heads) > MOST:
        return []
    tables = slices(metrics)
    result = []
    for task, head in heads.items():
        by, bars = "", list[Bar]()
        for (owner, name, sliced), rows in tables.items():
            if (owner, name, len(sliced)) == (task, head.name, 1) and 1 < len(rows) <= _MOST_BARS:
                by, bars = sliced[0], _bars(rows, labels.get(task, {}))
                break
        link = {"task": task, "verdict": "wrong", **{f"label.{k}": v for k, v in labels.get(task, {}).items()}}
        result.append(Card(head, by, bars, *wrong.get(task, (0, 0)), "#" + urlencode(link)))
    return result


def _bars(rows: Sequence[MetricResult], labels: Mapping[str, str]) -> list[Bar]:
    values = [percent(row, row.value) or 0.0 for row in rows]
    longest = 100.0 if all(row.unit in ("fraction", "percent") for row in rows) else max(*values, 1e-9)
    return [
        Bar(
            row.slice,
            round(max(0.0, 100 * value / longest), 1),
            row.text(row.value),
            row.denominator,
            samples_link(row.task, {**labels, **row.labels}),
        )
        for row, value in zip(rows, values, strict=True)
    ]
