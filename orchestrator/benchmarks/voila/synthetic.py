"""A synthetic image set for VOILA: pictograms of 4 numbers, 14 subjects and 13 actions.

They stand in for the published photographs, so that everything runs without them; a person can tell all 728 apart.
Results measured with them say nothing about a model's standing on VOILA.

`synthetic.json` beside this file holds the drawings: the head, clothes and tail of each subject; the pose of each
action and the strokes in its background and foreground. Coordinates refer to a cell of 200 by 200 units, y downwards;
action and the strokes in its background and foreground. Coordinates refer to a cell of 200 by 200 units, y downwards,
or "shape", color, edge, then corners. An edge of null is none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from orchestrator.benchmarks.drawing import Point
from orchestrator.benchmarks.voila.rules import ACTIONS, SUBJECTS, Spec
from orchestrator.data.images import encoded

INK = "#222222"
GROUND = 186
"""y of the ground on which every figure stands, in cell units."""

CELLS = {
    0: ((0.5, 0.5, 0.94),),
    1: ((0.26, 0.5, 0.5), (0.74, 0.5, 0.5)),
    2: ((0.26, 0.27, 0.5), (0.74, 0.27, 0.5), (0.5, 0.75, 0.5)),
    3: ((0.26, 0.27, 0.5), (0.74, 0.27, 0.5), (0.26, 0.75, 0.5), (0.74, 0.75, 0.5)),
}
"""Number -> center and side of each figure's cell, as shares of the picture's side."""
_PAPERS = ("#fffdf6", "#f3f8ff", "#f4fff4", "#fff4f6", "#f8f5ff", "#fff8ea", "#eefcfb", "#f6f6f6", "#fbfff0")


@cache
def _drawings() -> Mapping[str, Any]:
    drawings: Mapping[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    return drawings


class Pen:
    """Draws in cell units onto a picture.

    Args:
        draw: The picture.
        left: x of the cell's left edge, in pixels.
        top: y of the cell's upper edge, in pixels.
        unit: Pixels of a cell unit.
    """

    def __init__(self, draw: ImageDraw.ImageDraw, left: float, top: float, unit: float) -> None:
        self._draw, self._left, self._top, self._unit = draw, left, top, unit

    def within(self, scale: float) -> Pen:
        """Returns a pen for a smaller figure standing on the same ground."""
        return Pen(
            self._draw,
            self._left + 100 * (1 - scale) * self._unit,
            self._top + GROUND * (1 - scale) * self._unit,
            self._unit * scale,
        )

    def _at(self, points: Sequence[Point]) -> list[Point]:
        return [(self._left + x * self._unit, self._top + y * self._unit) for x, y in points]

    def line(self, points: Sequence[Point], color: str, width: float) -> None:
        """Draws a line with round joints and ends."""
        placed = self._at(points)
        thick = max(1, round(width * self._unit))
        self._draw.line(placed, fill=color, width=thick, joint="curve")
        for x, y in placed:
            self._draw.ellipse((x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill=color)

    def oval(self, x: float, y: float, rx: float, ry: float, color: str, edge: str | None = INK) -> None:
        """Draws an ellipse about a center."""
        box = self._at([(x - rx, y - ry), (x + rx, y + ry)])
        self._draw.ellipse((*box[0], *box[1]), fill=color, outline=edge, width=max(1, round(1.5 * self._unit)))

    def shape(self, points: Sequence[Point], color: str, edge: str | None = INK) -> None:
        """Draws a polygon."""
        self._draw.polygon(self._at(points), fill=color, outline=edge, width=max(1, round(1.5 * self._unit)))

    def strokes(self, strokes: Sequence[Sequence[Any]], x: float = 0, y: float = 0) -> None:
        """Draws strokes of the data file, moved by x and y."""
        for kind, color, style, *values in strokes:
            points = [(x + across, y + down) for across, down in zip(values[::2], values[1::2], strict=True)]
            if kind == "oval":
                self.oval(x + values[0], y + values[1], values[2], values[3], color, style)
            elif kind == "line":
                self.line(points, color, style)
            else:
                self.shape(points, color, style)


def _figure(pen: Pen, subject: Mapping[str, Any], pose: Mapping[str, Any]) -> None:
    """Draws a subject in a pose; a limb may bend at a joint between its ends."""
    (nx, ny), (hx, hy) = pose["neck"], pose["hip"]
    if subject["tail"]:
        color, width, *tip = subject["tail"]
        ends = [(hx - 4, hy - 4), (hx - 30, hy - 2), (hx - 46, hy - 26)]
        pen.line(ends, INK, width + 3)
        pen.line(ends, color, width)
        if tip:
            pen.line([ends[-1], (hx - 49, hy - 34)], tip[0], width - 6)
    for leg in pose["legs"]:
        pen.line([(hx, hy), *leg], INK, 14)
        pen.line([(hx, hy), *leg], subject["legs"], 11)
        pen.oval(leg[-1][0] + 4, leg[-1][1] - 2, 10, 6, INK)
    length = max(1.0, ((hx - nx) ** 2 + (hy - ny) ** 2) ** 0.5)
    across = (-(hy - ny) / length, (hx - nx) / length)
    top, low = (11, 30) if subject["dress"] else (17, 15)
    sides = ((nx, ny, -top), (nx, ny, top), (hx, hy, low), (hx, hy, -low))
    pen.shape([(x + across[0] * out, y + across[1] * out) for x, y, out in sides], subject["body"])
    shoulder = (nx + (hx - nx) * 0.15, ny + (hy - ny) * 0.15)
    for arm in pose["arms"]:
        pen.line([shoulder, *arm], INK, 12)
        pen.line([shoulder, *arm], subject["arms"], 9)
        hand_x, hand_y = arm[-1]
        pen.oval(hand_x, hand_y, 6, 6, subject["arms"])
    pen.strokes(subject["head"], *pose["head"])


@lru_cache(maxsize=1024)
def draw(spec: Spec, variant: int = 0, size: int = 256) -> bytes:
    """Returns a pictogram as a PNG of `size` by `size` pixels; variants differ in the paper's color."""
    large = size * 2
    picture = Image.new("RGB", (large, large), _PAPERS[variant % len(_PAPERS)])
    canvas = ImageDraw.Draw(picture)
    subject = _drawings()["subjects"][SUBJECTS[spec.subject][1]]
    action = _drawings()["actions"][ACTIONS[spec.action]]
    for x, y, side in CELLS[spec.number]:
        unit = side * large / 200
        pen = Pen(canvas, x * large - 100 * unit, y * large - 100 * unit, unit).within(subject["scale"] * 0.92)
        pen.strokes(action["behind"])
        _figure(pen, subject, action["pose"])
        pen.strokes(action["before"])
    return encoded(picture.resize((size, size), Image.Resampling.LANCZOS))
