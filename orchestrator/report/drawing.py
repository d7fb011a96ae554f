"""Static SVG: marks, axes and the three layouts that the report's charts have.

By hand, because what draws SVG without a browser brings a JavaScript engine, or imports that take
longer than all the rest of the page. Colours are variables of the page, so one drawing serves
light and dark; what a mark says is its title, which browsers show and screen readers read.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

INK, MUTED, LINE, ACCENT, SECOND = (f"var(--{name})" for name in ("ink", "muted", "line", "accent", "second"))
SERIES = (ACCENT, SECOND, *(f"var(--{name})" for name in ("third", "fourth", "fifth", "sixth", "ink")))

_FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
_SIZE = 11
_NAME_ROOM = 220
_COLUMNS = ((46, INK, 600), (112, MUTED, None))
"""Where the columns beside a row end, in pixels from the end of its scale, their colour and weight."""

_NARROW, _WIDE = frozenset("ijlftrI.,:;'|!()[]/- "), frozenset("mwMW@%…")


def element(name: str, content: str = "", /, **attributes: str | float | None) -> Markup:
    """Returns an element, everything escaped; `_` in an attribute's name stands for `-`, None is left out."""
    given = Markup().join(
        Markup(' {}="{}"').format(key.replace("_", "-"), f"{value:.6g}" if isinstance(value, float) else value)
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, given, content)


def text(words: str, x: float, y: float, **attributes: str | float | None) -> Markup:
    """Returns words whose middle line is at `y`."""
    return element("text", words, x=round(x, 1), y=round(y, 1), dy="0.33em", **attributes)


def line(x1: float, y1: float, x2: float, y2: float, colour: str, **attributes: str | float | None) -> Markup:
    """Returns a straight line."""
    ends = {"x1": round(x1, 1), "y1": round(y1, 1), "x2": round(x2, 1), "y2": round(y2, 1)}
    return element("line", stroke=colour, **ends, **attributes)


def dot(x: float, y: float, radius: float, colour: str, **attributes: str | float | None) -> Markup:
    """Returns a filled circle."""
    return element("circle", cx=round(x, 1), cy=round(y, 1), r=round(radius, 2), fill=colour, **attributes)


def box(x: float, y: float, width: float, height: float, colour: str, **attributes: str | float | None) -> Markup:
    """Returns a filled rectangle."""
    sides = {"x": round(x, 1), "y": round(y, 1), "width": round(width, 1), "height": round(height, 1)}
    return element("rect", fill=colour, **sides, **attributes)


def polyline(points: Iterable[tuple[float, float]], colour: str, **attributes: str | float | None) -> Markup:
    """Returns a line through points."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=joined, fill="none", stroke=colour, **attributes)


def said(words: str, *marks: Markup, href: str = "") -> Markup:
    """Returns marks as one that says `words`, a link if `href` is given."""
    return element("a" if href else "g", element("title", words) + Markup().join(marks), href=href or None)


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale.

    Attributes:
        low: The value at `start`.
        high: The value at `end`.
        step: From one tick to the next.
        start: Where it begins, in pixels.
        end: Where it ends.
    """

    low: float
    high: float
    step: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Returns where a value is, in pixels."""
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Returns where ticks are, and what they say."""
        digits = max(0, -math.floor(math.log10(self.step)))
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        numbers = (number * self.step for number in range(first, last + 1))
        return [(self.at(value), f"{value:,.{digits}f}") for value in numbers]


def axis(
    values: Iterable[float],
    start: float,
    end: float,
    *,
    ticks: int = 5,
    limits: tuple[float, float] | None = None,
) -> Axis:
    """Returns a scale from zero, or below, to above all values.

    Args:
        values: What is to be drawn.
        start: Where it begins, in pixels.
        end: Where it ends.
        ticks: About how many it has.
        limits: Where it ends instead, in values.
    """
    found = (0.0, *values)
    low, high = limits or (min(found), max(found))
    high = high if high > low else low + 1
    least = (high - low) / ticks
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power > least * (1 - 1e-9))
    if limits is None:
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
    return Axis(low, high, step, start, end)


def width_of(words: str) -> float:
    """Returns about how wide words are in the charts' font, in pixels."""
    return _SIZE * sum(map(_em, words))


def _em(character: str) -> float:
    if character in _NARROW:
        return 0.3
    if character in _WIDE or unicodedata.east_asian_width(character) in "WF":
        return 0.95
    return 0.67 if character.isupper() else 0.55


def clipped(words: str, room: float) -> str:
    """Returns words, cut where they would be wider than `room` pixels."""
    if width_of(words) <= room:
        return words
    while words and width_of(words + "…") > room:
        words = words[:-1]
    return words + "…"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a chart.

    Attributes:
        name: What stands before it.
        said: All that it shows, in words.
        marks: What is drawn, around y = 0.
        columns: What stands beside it: the number that it is about, and how many items are behind that.
        href: Where it leads.
    """

    name: str
    said: str
    marks: Sequence[Markup]
    columns: Sequence[str] = ()
    href: str = ""


def rows(
    title: str, found: Sequence[Row], scale: Axis, *, step: int, unit: str = "", rule: float | None = None
) -> Markup:
    """Draws rows over one scale.

    Args:
        title: What the chart shows.
        found: The rows.
        scale: Of their marks, from 0 pixels on.
        step: Height of a row, pixels.
        unit: What stands below the scale.
        rule: Where a dashed line goes through all rows, as a value.
    """
    names = [clipped(row.name, _NAME_ROOM) for row in found]
    left = max(map(width_of, names), default=0.0) + 12
    right = max((_COLUMNS[len(row.columns) - 1][0] for row in found if row.columns), default=8)
    height = step * len(found)
    marks = _across(scale, height, unit)
    if rule is not None:
        marks.append(line(scale.at(rule), 0, scale.at(rule), height, MUTED, stroke_dasharray="3,3"))
    for number, (row, name) in enumerate(zip(found, names, strict=True)):
        beside = [
            text(words, scale.end + at, 0, text_anchor="end", fill=colour, font_weight=weight)
            for words, (at, colour, weight) in zip(row.columns, _COLUMNS, strict=False)
        ]
        target = (
            [box(-left, -step / 2, left + scale.end + right, step, "none", pointer_events="all")] if row.href else []
        )
        label = text(name, -8, 0, text_anchor="end", fill=MUTED)
        drawn = said(row.said, *target, label, *row.marks, *beside, href=row.href)
        marks.append(element("g", drawn, transform=f"translate(0,{step * (number + 0.5):g})"))
    return _svg(title, marks, (-left, 0, left + scale.end + right, height + (36 if unit else 20)))


def cells(
    title: str,
    down: Sequence[str],
    across: Sequence[str],
    found: Iterable[tuple[int, int, Markup]],
    size: tuple[int, int],
) -> Markup:
    """Draws a table of cells.

    Args:
        title: What the chart shows.
        down: Names of the rows.
        across: Names of the columns.
        found: Row, column and drawing of each cell, from 0,0 to its `size`.
        size: Width and height of a cell, pixels.
    """
    width, height = size
    names = [clipped(name, _NAME_ROOM) for name in down]
    left = max(map(width_of, names)) + 12
    marks = [text(name, -8, height * (row + 0.5), text_anchor="end", fill=MUTED) for row, name in enumerate(names)] + [
        text(clipped(name, width), width * (column + 0.5), -12, text_anchor="middle", fill=MUTED)
        for column, name in enumerate(across)
    ]
    for row, column, drawn in found:
        marks.append(element("g", drawn, transform=f"translate({width * column},{height * row})"))
    return _svg(title, marks, (-left, -22, left + width * len(across), 22 + height * len(down)))


def plane(
    title: str,
    x: Axis,
    y: Axis,
    marks: Iterable[Markup],
    *,
    units: tuple[str, str],
    key: Sequence[tuple[str, str]] = (),
) -> Markup:
    """Draws marks over two scales.

    Args:
        title: What the chart shows.
        x: The scale across, from 0 pixels on.
        y: The scale up, to 0 pixels at the top.
        marks: What is drawn.
        units: What stands below and left of the scales.
        key: Name and colour of each series.
    """
    ticks = y.ticks()
    left = max(width_of(words) for _, words in ticks) + 30
    lines = _across(x, y.start, units[0])
    lines += [line(0, at, x.end, at, LINE) for at, _ in ticks]
    lines += [text(words, -8, at, text_anchor="end", fill=MUTED) for at, words in ticks]
    turned = {
        "text_anchor": "middle",
        "fill": MUTED,
        "transform": f"rotate(-90) translate({-y.start / 2:g},{12 - left:g})",
    }
    lines.append(text(units[1], 0, 0, **turned))
    entries, above = _key(key, x.end)
    return _svg(title, [*lines, *marks, *entries], (-left, -above, left + x.end + 12, above + y.start + 36))


def _across(scale: Axis, height: float, unit: str) -> list[Markup]:
    """Returns a scale's grid, and below it what its ticks say and its unit."""
    ticks = scale.ticks()
    marks = [line(at, 0, at, height, LINE) for at, _ in ticks]
    marks += [text(words, at, height + 12, text_anchor="middle", fill=MUTED) for at, words in ticks]
    if unit:
        marks.append(text(unit, (scale.start + scale.end) / 2, height + 28, text_anchor="middle", fill=MUTED))
    return marks


def _key(key: Sequence[tuple[str, str]], room: float) -> tuple[list[Markup], float]:
    """Returns the key of series, line by line above a drawing, and how high it is."""
    places, x, y = [], 0.0, 0
    for name, colour in key:
        words = clipped(name, room - 30)
        wide = width_of(words) + 30
        if x and x + wide > room:
            x, y = 0.0, y + 16
        places.append((x, y, words, colour))
        x += wide
    above = y + 24 if key else 8
    marks = [
        said(words, box(x, y - above + 5, 10, 3, colour), text(words, x + 15, y - above + 7))
        for x, y, words, colour in places
    ]
    return marks, above


def _svg(title: str, marks: Iterable[Markup], frame: tuple[float, float, float, float]) -> Markup:
    x, y, width, height = (round(number) for number in frame)
    return element(
        "svg",
        Markup().join(marks),
        width=width,
        height=height,
        viewBox=f"{x} {y} {width} {height}",
        role="graphics-document",
        aria_label=title,
        font_family=_FONT,
        font_size=_SIZE,
        fill=INK,
    )
