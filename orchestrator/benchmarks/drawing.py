"""Drawing with pillow: shapes, text and encoding that synthetic benchmarks share.

Everything is drawn at twice its size and halved at the end, so that edges are smooth.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from orchestrator.data.images import encoded
from orchestrator.data.rows import Row

SCALE = 2
Point = tuple[float, float]
Color = int | str | tuple[int, int, int]

SIDES = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6}
"""Regular shapes by their number of sides."""
SHAPES = ("circle", *SIDES, "star")
"""Every shape that `shape` draws."""


def generator(name: str, seed: int, index: int) -> random.Random:
    """Returns the generator of one row: it depends on nothing but these three."""
    return random.Random(f"{name}/{seed}/{index}")


def synthetic_row(fields: Mapping[str, Any], picture: Callable[[], bytes]) -> Row:
    """Returns a row whose image is drawn when it is loaded."""
    return Row(fields, lambda column: picture() if column == "image" else None)


def corners(center: Point, radius: float, sides: int, turn: float = 0.0) -> list[Point]:
    """Returns a regular polygon's corners, resting on a side; `turn` is in degrees, clockwise."""
    start = -90 + turn + (180 / sides if sides % 2 == 0 else 0)
    angles = [math.radians(start + 360 * i / sides) for i in range(sides)]
    return [(center[0] + radius * math.cos(a), center[1] + radius * math.sin(a)) for a in angles]


def star_corners(center: Point, radius: float, turn: float = 0.0) -> list[Point]:
    """Returns the corners of a star of five points."""
    angles = [math.radians(-90 + turn + 36 * i) for i in range(10)]
    lengths = [radius if i % 2 == 0 else radius * 0.42 for i in range(10)]
    return [(center[0] + r * math.cos(a), center[1] + r * math.sin(a)) for a, r in zip(angles, lengths, strict=True)]


def shape(
    draw: ImageDraw.ImageDraw,
    name: str,
    center: Point,
    radius: float,
    *,
    fill: Color | None = None,
    outline: Color = 0,
    width: int = 6,
    turn: float = 0.0,
) -> None:
    """Draws one of `SHAPES`, its farthest point `radius` from the center."""
    x, y = center
    if name == "circle":
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill, outline, width)
        return
    points = star_corners(center, radius, turn) if name == "star" else corners(center, radius, SIDES[name], turn)
    draw.polygon(points, fill, outline, width)


def dot(draw: ImageDraw.ImageDraw, center: Point, radius: float, fill: Color = 0) -> None:
    """Draws a filled circle."""
    draw.ellipse((center[0] - radius, center[1] - radius, center[0] + radius, center[1] + radius), fill)


def words(draw: ImageDraw.ImageDraw, at: Point, text: str, size: int, *, fill: Color = 0, anchor: str = "mm") -> None:
    """Writes text in the font that pillow brings along."""
    draw.text(at, text, fill=fill, font=ImageFont.load_default(size), anchor=anchor)


def arrow(draw: ImageDraw.ImageDraw, start: Point, end: Point, *, fill: Color = 0, width: int = 6) -> None:
    """Draws an arrow."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    head = width * 4
    base = (end[0] - head * math.cos(angle), end[1] - head * math.sin(angle))
    side = (head * 0.6 * math.sin(angle), -head * 0.6 * math.cos(angle))
    draw.line((start, base), fill, width)
    draw.polygon([end, (base[0] + side[0], base[1] + side[1]), (base[0] - side[0], base[1] - side[1])], fill)


def halved(image: Image.Image) -> Image.Image:
    """Returns the image at its real size."""
    return image.resize((image.width // SCALE, image.height // SCALE), Image.Resampling.LANCZOS)


def png(image: Image.Image) -> bytes:
    """Encodes a drawing."""
    return encoded(image, compress_level=6)
