"""Charts as static SVG, drawn by Vega-Lite when the report is written.

Static rather than interactive: the page stays small, prints as it looks, needs no script and no
`unsafe-eval` (which Vega in a browser does). What interaction is worth having, going from a bar
or a cell to its samples, is a link. Colours are variables of the page, so one drawing serves
light and dark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import vl_convert
from markupsafe import Markup

from orchestrator.report.figures import Figure

Spec = dict[str, Any]

# Colours that stand for variables of the style sheet; see `draw`.
INK, MUTED, LINE, ACCENT, SECOND = "#010101", "#020202", "#030303", "#040404", "#050505"
SERIES = ("#040404", "#050505", "#070707", "#080808", "#090909", "#0a0a0a", "#010101")
_VARIABLES = {
    INK: "--ink", MUTED: "--muted", LINE: "--line", ACCENT: "--accent", SECOND: "--second",
    "#070707": "--third", "#080808": "--fourth", "#090909": "--fifth", "#0a0a0a": "--sixth",
}  # fmt: skip

_FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
_CONFIG: Spec = {
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED, "titleColor": MUTED, "titleFontWeight": "normal", "domainColor": LINE, "gridColor": LINE,
        "tickColor": LINE, "labelFontSize": 11, "titleFontSize": 11, "labelLimit": 220, "domain": False, "ticks": False,
        "labelPadding": 6,
    },
    "legend": {"labelColor": INK, "titleColor": MUTED, "titleFontWeight": "normal", "labelFontSize": 11},
    "text": {"fill": INK, "fontSize": 11},
    "line": {"strokeWidth": 1.5},
}  # fmt: skip

# Vega resolves a bare anchor against its own address; a name that cannot exist is taken out again.
_HERE = "https://page.invalid/"

WIDTH = 420


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


def draw(spec: Spec) -> Markup:
    """Renders a Vega-Lite specification to SVG whose colours follow the page."""
    svg = vl_convert.vegalite_to_svg({"config": _CONFIG, **spec}, allowed_base_urls=[])
    svg = svg.replace(f'"{_HERE}#', '"#')
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(f'"{colour}"', f'"var({variable})"')
    return Markup(svg)  # noqa: S704 - Vega escapes the texts it draws


def samples_link(task: str, labels: Mapping[str, str]) -> str:
    """Returns a link to a slice's samples, for `draw` to make an anchor of."""
    return f"{_HERE}#" + urlencode({"task": task, **{f"label.{name}": value for name, value in labels.items()}})


def percent(figure: Figure, value: float | None) -> float | None:
    """Returns a value as it is plotted: fractions in percent."""
    return None if value is None else (100 * value if figure.unit == "fraction" else value)


def by_label(rows: Sequence[Figure], overall: Figure | None, where: Mapping[str, str]) -> Chart:
    """Accuracy by one label, each with its interval, and the overall figure as a line.

    Args:
        rows: The figures of the slices.
        overall: The figure that they are slices of.
        where: Labels that all items behind it have; part of the links to them.
    """
    label = next(iter(rows[0].labels))
    dots = [(row.slice or "–", row, samples_link(row.task, {**where, **row.labels})) for row in rows]
    line = percent(overall, overall.value) if overall is not None else None
    note = f"Dots with {rows[0].level:.0%} intervals. " if rows[0].level else ""
    return Chart(
        f"{rows[0].name} by {label}",
        note + ("The dashed line is the overall figure." if line is not None else ""),
        dot_plot(dots, line),
        _topic(rows[0].name),
    )


def by_task(name: str, rows: Sequence[Figure]) -> Chart:
    """One figure over many tasks."""
    dots = [(row.task, row, samples_link(row.task, {})) for row in rows]
    note = f"Dots with {rows[0].level:.0%} intervals." if rows[0].level else ""
    return Chart(f"{name} by task", note, dot_plot(dots, None))


def dot_plot(dots: Sequence[tuple[str, Figure, str]], line: float | None) -> Markup:
    """Draws figures as dots with intervals, one under the other.

    Args:
        dots: Name, figure and link of each.
        line: Where to draw a dashed line, None for none.
    """
    plot = WIDTH - 120
    data = [
        {
            "slice": name, "value": percent(row, row.value), "low": percent(row, row.low),
            "high": percent(row, row.high), "text": row.text(row.value), "n": f"n={row.denominator:,}", "href": href,
        }
        for name, row, href in dots
        if row.value is not None
    ]  # fmt: skip
    tops = [percent(row, row.value if row.high is None else row.high) or 0.0 for _, row, _ in dots]
    scale = {**axis_scale(tops, dots[0][1]), "range": [0, plot]}
    y: Spec = {"field": "slice", "type": "nominal", "sort": None, "title": None}
    x: Spec = {"type": "quantitative", "scale": scale, "title": None, "axis": {"tickCount": 5, "labelFlush": False}}
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.28, "color": ACCENT, "strokeCap": "round"},
            "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}, "href": {"field": "href"}},
        },
        {
            "mark": {"type": "circle", "size": 62, "opacity": 1, "color": ACCENT},
            "encoding": {"y": y, "x": {**x, "field": "value"}, "href": {"field": "href"}},
        },
        {
            "mark": {"type": "text", "align": "right", "fontWeight": 600},
            "encoding": {"y": y, "x": {"value": plot + 46}, "text": {"field": "text"}},
        },
        {
            "mark": {"type": "text", "align": "right", "fill": MUTED},
            "encoding": {"y": y, "x": {"value": plot + 112}, "text": {"field": "n"}},
        },
    ]
    if line is not None:
        rule = {"type": "rule", "color": MUTED, "strokeDash": [3, 3]}
        layers.insert(0, {"data": {"values": [{"v": line}]}, "mark": rule, "encoding": {"x": {**x, "field": "v"}}})
    return draw({"data": {"values": data}, "width": WIDTH, "height": {"step": 24}, "layer": layers})


def crossed(rows: Sequence[Figure], where: Mapping[str, str]) -> Chart:
    """Two labels crossed, as a heat map with the value and the number of items in each cell."""
    # The label of fewer values goes across, where names need room.
    sizes = {label: len({row.labels[label] for row in rows}) for label in rows[0].labels}
    across, down = sorted(sizes, key=lambda label: (sizes[label], label))
    cells = [
        (row.labels[down], row.labels[across], row, samples_link(row.task, {**where, **row.labels})) for row in rows
    ]
    note = "Darker is higher; follow a cell to its samples."
    return Chart(f"{rows[0].name}: {down} × {across}", note, heat_map(cells), _topic(rows[0].name))


_STEP = re.compile(r"step (?P<step>[^:]+): (?P<what>.+)")


def _topic(name: str) -> str:
    found = _STEP.fullmatch(name)
    return f"Step {found['step']}" if found else name


def grid(totals: Sequence[Figure]) -> list[Chart]:
    """Figures that are named `step 2: number`, as VOILA's are: what is looked at x step, one heat map a task."""
    cells: dict[str, list[tuple[str, str, Figure, str]]] = {}
    for figure in totals:
        if found := _STEP.fullmatch(figure.name):
            link = samples_link(figure.task, {"step": found["step"]})
            cells.setdefault(figure.task, []).append((found["what"], f"step {found['step']}", figure, link))
    note = "Darker is higher; follow a cell to the samples of its step."
    return [
        Chart(f"{task}: property × step", note, heat_map(found), "All steps")
        for task, found in cells.items()
        if len({step for _, step, _, _ in found}) > 1
    ]


def heat_map(cells: Sequence[tuple[str, str, Figure, str]]) -> Markup:
    """Draws figures as cells.

    Args:
        cells: Row, column, figure and link of each.
    """
    values = [percent(figure, figure.value) or 0.0 for _, _, figure, _ in cells]
    data = [
        {
            "down": down, "across": across, "value": percent(figure, figure.value), "text": figure.text(figure.value),
            "n": f"n={figure.denominator:,}", "href": href,
        }
        for down, across, figure, href in cells
    ]  # fmt: skip
    place: Spec = {
        "y": {"field": "down", "type": "nominal", "sort": None, "title": None},
        "x": {
            "field": "across", "type": "nominal", "sort": None, "title": None,
            "axis": {"orient": "top", "labelAngle": 0, "labelLimit": 110},
        },
    }  # fmt: skip
    shade: Spec = {"domain": [min(0.0, *values, 0.0), max(*values, 0.0) or 1.0], "range": [0.04, 0.62]}
    opacity: Spec = {"field": "value", "type": "quantitative", "legend": None, "scale": shade}
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "color": ACCENT, "cornerRadius": 3},
            "encoding": {**place, "fillOpacity": opacity, "href": {"field": "href"}},
        },
        {"mark": {"type": "text", "dy": -5, "fontWeight": 600}, "encoding": {**place, "text": {"field": "text"}}},
        {
            "mark": {"type": "text", "dy": 8, "fontSize": 9, "color": MUTED, "fill": MUTED},
            "encoding": {**place, "text": {"field": "n"}},
        },
    ]
    columns = len({across for _, across, _, _ in cells})
    config = {**_CONFIG, "scale": {"rectBandPaddingInner": 0.06}}
    width = {"step": max(64, min(104, 520 // columns))}
    return draw({"data": {"values": data}, "width": width, "height": {"step": 36}, "layer": layers, "config": config})


def axis_scale(tops: Sequence[float], figure: Figure) -> Spec:
    """Returns the scale of an axis that starts at zero and ends above the highest value."""
    top = max(tops, default=1.0)
    if figure.unit in ("fraction", "percent"):
        return {"domain": [0, min(100, 10 * math.ceil(top / 10 + 0.01))], "nice": False}
    return {"zero": True}
