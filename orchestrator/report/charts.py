"""Charts of figures: by label, by task, two labels crossed, and steps of an episode.

Static: the page stays small, prints as it looks, and its policy can forbid every script but the
page's own. What interaction is worth having, going from a dot or a cell to its samples, is a link.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from markupsafe import Markup

from orchestrator.report.drawing import ACCENT, Axis, Row, axis, box, cells, dot, line, rows, said, text
from orchestrator.run_folder.metrics import Figure

_WIDTH = 300

DARKEST = 0.54
"""How much of the accent the darkest cell of a heat map has: ink is read on it in light and in dark."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One drawing.

    Attributes:
        title: What it shows.
        note: How to read it, one sentence.
        svg: The drawing.
        topic: What it belongs to: a figure's name, "" for the run as a whole.
    """

    title: str
    note: str
    svg: Markup
    topic: str = ""


def samples_link(task: str, labels: Mapping[str, str]) -> str:
    """Returns a link to a slice's samples."""
    return "#" + urlencode({"task": task, **{f"label.{name}": value for name, value in labels.items()}})


def percent(figure: Figure, value: float | None) -> float | None:
    """Returns a value as it is plotted: fractions in percent."""
    return None if value is None else (100 * value if figure.unit == "fraction" else value)


def by_label(
    found: Sequence[Figure], overall: Figure | None, where: Mapping[str, str], *, several: bool = False
) -> Chart:
    """Accuracy by one label, each with its interval, and the overall figure as a line.

    Args:
        found: The figures of the slices.
        overall: The figure that they are slices of.
        where: Labels that all items behind it have; part of the links to them.
        several: Whether other tasks may have the same figure, so that the title has to tell them apart.
    """
    first = found[0]
    title = f"{_owner(first, several)}{first.name} by {next(iter(first.labels))}"
    dots = [(row.slice or "–", row, samples_link(row.task, {**where, **row.labels})) for row in found]
    rule = percent(overall, overall.value) if overall is not None else None
    note = f"Dots with {first.level:.0%} intervals. " if first.level else ""
    note += "The dashed line is the overall figure." if rule is not None else ""
    return Chart(title, note, _dots(title, dots, rule), _topic(first.name))


def _owner(figure: Figure, several: bool) -> str:
    return f"{figure.task}: " if several else ""


def by_task(name: str, found: Sequence[Figure]) -> Chart:
    """One figure over many tasks."""
    dots = [(row.task, row, samples_link(row.task, {})) for row in found]
    note = f"Dots with {found[0].level:.0%} intervals." if found[0].level else ""
    return Chart(f"{name} by task", note, _dots(f"{name} by task", dots, None))


def _dots(title: str, dots: Sequence[tuple[str, Figure, str]], rule: float | None) -> Markup:
    """Draws figures (name, figure and link of each) as dots with intervals, `rule` as a dashed line."""
    known = [(name, figure, figure.value, href) for name, figure, href in dots if figure.value is not None]
    scale = _scale([figure for _, figure, _, _ in known], rule)
    found = []
    for name, figure, value, href in known:
        low, at, high = (scale.at(percent(figure, end) or 0.0) for end in (figure.low, value, figure.high))
        span = line(low, 0, high, 0, ACCENT, stroke_width=5, stroke_opacity=0.28, stroke_linecap="round")
        marks = [*([span] if figure.low is not None else []), dot(at, 0, 4.5, ACCENT)]
        n = f"n={figure.denominator:,}"
        found.append(Row(name, f"{name}: {figure.shown}, {n}", marks, (figure.text(value), n), href))
    return rows(title, found, scale, step=24, rule=rule)


def _scale(found: Sequence[Figure], rule: float | None) -> Axis:
    """Returns a scale from zero, or the lowest value, to above the highest; of percents to 100 at most."""
    ends = [rule or 0.0, *(percent(row, end) or 0.0 for row in found for end in (row.value, row.low, row.high))]
    if not all(row.unit in ("fraction", "percent") for row in found):
        return axis(ends, 0, _WIDTH)
    top = min(100, 10 * math.ceil(max(ends) / 10 + 0.01))
    return axis(ends, 0, _WIDTH, limits=(min(0.0, *ends), top))


def crossed(found: Sequence[Figure], where: Mapping[str, str], *, several: bool = False) -> Chart:
    """Two labels crossed, as a heat map with the value and the number of items in each cell."""
    # The label of fewer values goes across, where names need room.
    sizes = {label: len({row.labels[label] for row in found}) for label in found[0].labels}
    across, down = sorted(sizes, key=lambda label: (sizes[label], label))
    values = [
        (row.labels[down], row.labels[across], row, samples_link(row.task, {**where, **row.labels})) for row in found
    ]
    title = f"{_owner(found[0], several)}{found[0].name}: {down} × {across}"
    note = "Darker is higher; follow a cell to its samples."
    return Chart(title, note, _heat_map(title, values), _topic(found[0].name))


_STEP = re.compile(r"step (?P<step>[^:]+): (?P<what>.+)")


def _topic(name: str) -> str:
    found = _STEP.fullmatch(name)
    return f"Step {found['step']}" if found else name


def grid(totals: Sequence[Figure]) -> list[Chart]:
    """Figures that are named `step 2: number`, as VOILA's are: what is looked at x step, one heat map a task."""
    tables: dict[str, list[tuple[str, str, Figure, str]]] = {}
    for figure in totals:
        if found := _STEP.fullmatch(figure.name):
            link = samples_link(figure.task, {"step": found["step"]})
            tables.setdefault(figure.task, []).append((found["what"], f"step {found['step']}", figure, link))
    note = "Darker is higher; follow a cell to the samples of its step."
    return [
        Chart(title := f"{task}: property × step", note, _heat_map(title, found), "All steps")
        for task, found in tables.items()
        if len({step for _, step, _, _ in found}) > 1
    ]


def _heat_map(title: str, found: Sequence[tuple[str, str, Figure, str]]) -> Markup:
    """Draws figures (row, column, figure and link of each) as cells."""
    down, across = (list(dict.fromkeys(names)) for names in ([d for d, *_ in found], [a for _, a, *_ in found]))
    values = [percent(figure, figure.value) or 0.0 for _, _, figure, _ in found]
    low, high = min(0.0, *values, 0.0), max(*values, 0.0) or 1.0
    width, height = max(64, min(104, 520 // len(across))), 36
    drawn = []
    for (row, column, figure, href), value in zip(found, values, strict=True):
        n = f"n={figure.denominator:,}"
        shade = 0.04 + (DARKEST - 0.04) * (value - low) / (high - low)
        cell = said(
            f"{row}, {column}: {figure.shown}, {n}",
            box(1, 1, width - 4, height - 2, ACCENT, rx=3, fill_opacity=round(shade, 3)),
            text(figure.text(figure.value), width / 2 - 1, 13, text_anchor="middle", font_weight=600),
            text(n, width / 2 - 1, 26, text_anchor="middle", font_size=9),
            href=href,
        )
        drawn.append((down.index(row), across.index(column), cell))
    return cells(title, down, across, drawn, (width, height))
