"""Charts of metrics, as data: by label, by task, two labels crossed, and the steps of an episode.

`templates/charts.html` draws them. Rows and heat maps are HTML tables with a small SVG in each row or cell, so that
text wraps, screen readers read values and the page needs no width of words. Places are percentages of a scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode

from lyncean.vocabulary.facts import FILTERED
from orchestrator.run_folder.metrics import MetricResult

DARKEST = 0.54
"""Opacity of the accent in the darkest cell of a heat map: text is legible on it in light and in dark."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from `low` to `high` with a tick every `step`."""

    low: float
    high: float
    step: float

    def at(self, value: float) -> float:
        """Returns the place of a value, in percent of the scale."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Place (percent) and text of each tick."""
        digits = max(0, -math.floor(math.log10(self.step)))
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        values = (number * self.step for number in range(first, last + 1))
        return [(self.at(value), f"{value:,.{digits}f}") for value in values]


def axis(values: Iterable[float], *, ticks: int = 5, limits: tuple[float, float] | None = None) -> Axis:
    """Returns a scale from zero, or below, to above all values.

    Args:
        values: The values to show.
        ticks: The approximate number of ticks.
        limits: The ends of the scale, instead of round numbers around the values.
    """
    known = (0.0, *values)
    low, high = limits or (min(known), max(known))
    high = high if high > low else low + 1
    least = (high - low) / ticks
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power > least * (1 - 1e-9))
    if limits is None:
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
    return Axis(low, high, step)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a chart, or one cell of a heat map.

    Attributes:
        name: The row's heading.
        words: All values in words: the tooltip.
        marks: Shape (a CSS class), start and end (percent) of each mark; a dot has one place only.
        columns: The values beside it.
        href: Link to its samples, "" for none.
    """

    name: str
    words: str
    marks: Sequence[tuple[str, float, float]]
    columns: Sequence[str]
    href: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows over one scale.

    Attributes:
        headings: Headings of the rows' columns.
        unit: Text below the scale.
        rule: Place of a dashed line through all rows, percent.
    """

    kind: ClassVar[str] = "rows"
    rows: Sequence[Row]
    axis: Axis
    headings: Sequence[str]
    unit: str = ""
    rule: float | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A table of cells, each with the opacity of its shade; None for no result."""

    kind: ClassVar[str] = "heat_map"
    across: Sequence[str]
    down: Mapping[str, Sequence[tuple[Row, float] | None]]


@dataclass(frozen=True, slots=True)
class Plane:
    """Points and lines over two scales.

    Attributes:
        units: Text below and left of the scales.
        lines: CSS class and points (percent, percent) of each line.
        dots: CSS class, place (percent, percent), radius (pixels), tooltip and label of each dot.
        bands: Start and width (percent) of vertical bands with a tooltip.
        legend: Name and CSS class of each series.
    """

    kind: ClassVar[str] = "plane"
    x: Axis
    y: Axis
    units: tuple[str, str]
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]] = ()
    dots: Sequence[tuple[str, float, float, float, str, str]] = ()
    bands: Sequence[tuple[float, float, str]] = ()
    legend: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart.

    Attributes:
        title: What it shows.
        note: How to read it, one sentence.
        layout: What is drawn.
        topic: The metric it belongs to, "" for the run as a whole.
    """

    title: str
    note: str
    layout: Rows | HeatMap | Plane
    topic: str = ""


def samples_link(task: str, labels: Mapping[str, str]) -> str:
    """Returns a link to a slice's samples."""
    named = {name if name in FILTERED else f"label.{name}": value for name, value in labels.items()}
    return "#" + urlencode({"task": task, **named})


def percent(result: MetricResult, value: float | None) -> float | None:
    """Returns a value as it is plotted: fractions in percent."""
    return None if value is None else (100 * value if result.unit == "fraction" else value)


def by_label(
    results: Sequence[MetricResult], overall: MetricResult | None, where: Mapping[str, str], *, several: bool = False
) -> Chart:
    """A metric by one label, each value with its interval, and the overall result as a line.

    Args:
        results: The results of the slices.
        overall: The result that they are slices of.
        where: Labels that all its items have; part of the links to them.
        several: Whether other tasks may have the same metric, so that the title names the task.
    """
    first = results[0]
    rows = [(result.slice or "–", result, samples_link(result.task, {**where, **result.labels})) for result in results]
    rule = percent(overall, overall.value) if overall is not None else None
    note = f"Dots with {first.level:.0%} confidence intervals. " if first.level else ""
    note += "The dashed line is the overall result." if rule is not None else ""
    title = f"{_owner(first, several)}{first.name} by {next(iter(first.labels))}"
    return Chart(title, note, _dots(rows, rule), _topic(first.name))


def by_task(name: str, results: Sequence[MetricResult]) -> Chart:
    """One metric over many tasks."""
    rows = [(result.task, result, samples_link(result.task, {})) for result in results]
    note = f"Dots with {results[0].level:.0%} confidence intervals." if results[0].level else ""
    return Chart(f"{name} by task", note, _dots(rows, None))


def _owner(result: MetricResult, several: bool) -> str:
    return f"{result.task}: " if several else ""


def _dots(named: Sequence[tuple[str, MetricResult, str]], rule: float | None) -> Rows:
    """Returns results (name, result and link of each) as dots with intervals, `rule` as a dashed line."""
    known = [(name, result, href) for name, result, href in named if result.value is not None]
    ends = [rule or 0.0]
    for _, result, _ in known:
        ends += [percent(result, end) or 0.0 for end in (result.value, result.low, result.high)]
    limits = None
    if all(result.unit in ("fraction", "percent") for _, result, _ in known):
        limits = (min(0.0, *ends), float(min(100, 10 * math.ceil(max(ends) / 10 + 0.01))))
    scale = axis(ends, limits=limits)
    rows = []
    for name, result, href in known:
        low, at, high = (scale.at(percent(result, end) or 0.0) for end in (result.low, result.value, result.high))
        marks = [*([("span", low, high)] if result.low is not None else []), ("dot", at, at)]
        count = f"{result.denominator:,}"
        label = f"{name}: {result.shown}, n={count}"
        rows.append(Row(name, label, marks, (result.text(result.value), count), href))
    return Rows(rows, scale, ("", "n"), rule=None if rule is None else scale.at(rule))


def crossed(results: Sequence[MetricResult], where: Mapping[str, str], *, several: bool = False) -> Chart:
    """Two labels crossed, as a heat map with the value and the number of items in each cell."""
    # The label of fewer values goes across, where names need room.
    sizes = {label: len({result.labels[label] for result in results}) for label in results[0].labels}
    across, down = sorted(sizes, key=lambda label: (sizes[label], label))
    cells = [
        (result.labels[down], result.labels[across], result, samples_link(result.task, {**where, **result.labels}))
        for result in results
    ]
    title = f"{_owner(results[0], several)}{results[0].name}: {down} × {across}"
    return Chart(title, "Darker is higher; a cell links to its samples.", _heat_map(cells), _topic(results[0].name))


_STEP = re.compile(r"step (?P<step>[^:]+): (?P<what>.+)")


def _topic(name: str) -> str:
    match = _STEP.fullmatch(name)
    return f"Step {match['step']}" if match else name


def grid(totals: Sequence[MetricResult]) -> list[Chart]:
    """Metrics that are named `step 2: number`, as VOILA's are: property × step, one heat map a task."""
    tables: dict[str, list[tuple[str, str, MetricResult, str]]] = {}
    for result in totals:
        if match := _STEP.fullmatch(result.name):
            link = samples_link(result.task, {"step": match["step"]})
            tables.setdefault(result.task, []).append((match["what"], f"step {match['step']}", result, link))
    note = "Darker is higher; a cell links to the samples of its step."
    return [
        Chart(f"{task}: property × step", note, _heat_map(cells), "All steps")
        for task, cells in tables.items()
        if len({step for _, step, _, _ in cells}) > 1
    ]


def _heat_map(cells: Sequence[tuple[str, str, MetricResult, str]]) -> HeatMap:
    """Returns results (row, column, result and link of each) as cells."""
    across = list(dict.fromkeys(column for _, column, _, _ in cells))
    values = [percent(result, result.value) or 0.0 for _, _, result, _ in cells]
    low, high = min(0.0, *values, 0.0), max(*values, 0.0) or 1.0
    down: dict[str, list[tuple[Row, float] | None]] = {row: [None] * len(across) for row, _, _, _ in cells}
    for (row, column, result, href), value in zip(cells, values, strict=True):
        count = f"n={result.denominator:,}"
        label = f"{row}, {column}: {result.shown}, {count}"
        shade = 0.04 + (DARKEST - 0.04) * (value - low) / (high - low)
        down[row][across.index(column)] = (Row(row, label, (), (result.text(result.value), count), href), shade)
    return HeatMap(across, down)
