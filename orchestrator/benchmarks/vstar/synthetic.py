"""Scenes in V*-Bench's schema: a large picture, a small object in it, and a question about it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from PIL import Image, ImageDraw, ImageFilter

from orchestrator.benchmarks import drawing as ink
from orchestrator.benchmarks.vstar.prompt import INSTRUCTION
from orchestrator.data.images import encoded
from orchestrator.data.rows import Row

WIDTH, HEIGHT = 2048, 1536
HORIZON = 700
COLORS = {
    "red": (214, 40, 40),
    "yellow": (250, 210, 40),
    "blue": (40, 80, 220),
    "white": (250, 250, 250),
    "black": (25, 25, 25),
    "orange": (250, 130, 20),
    "purple": (140, 50, 180),
    "pink": (250, 130, 190),
}
Box = tuple[float, float, float]
"""Center x, center y and half the height of an object, in pixels."""


def _ball(draw: ImageDraw.ImageDraw, box: Box, color: ink.Color) -> None:
    x, y, r = box
    ink.dot(draw, (x, y), r, (40, 40, 40))
    ink.dot(draw, (x, y), r * 0.9, color)


def _flag(draw: ImageDraw.ImageDraw, box: Box, color: ink.Color) -> None:
    x, y, r = box
    draw.line((x - r * 0.6, y - r, x - r * 0.6, y + r), (90, 70, 50), max(4, int(r * 0.15)))
    draw.rectangle((x - r * 0.55, y - r, x + r * 0.9, y), color, (40, 40, 40), 2)


def _umbrella(draw: ImageDraw.ImageDraw, box: Box, color: ink.Color) -> None:
    x, y, r = box
    draw.line((x, y - r * 0.2, x, y + r), (60, 40, 30), max(4, int(r * 0.12)))
    draw.pieslice((x - r, y - r, x + r, y + r), 180, 360, color, (40, 40, 40), 2)


def _kite(draw: ImageDraw.ImageDraw, box: Box, color: ink.Color) -> None:
    x, y, r = box
    draw.line([(x, y + r), (x - r * 0.3, y + r * 1.6), (x + r * 0.2, y + r * 2.2)], (60, 60, 60), 3)
    draw.polygon([(x, y - r), (x + r * 0.7, y - r * 0.2), (x, y + r), (x - r * 0.7, y - r * 0.2)], color, (40, 40, 40))


def _car(draw: ImageDraw.ImageDraw, box: Box, color: ink.Color) -> None:
    x, y, r = box
    draw.polygon([(x - r, y), (x - r * 0.6, y - r * 0.8), (x + r * 0.6, y - r * 0.8), (x + r, y)], (170, 210, 230))
    draw.rectangle((x - r * 1.6, y, x + r * 1.6, y + r * 0.7), color, (40, 40, 40), 2)
    for side in (-1, 1):
        ink.dot(draw, (x + side * r, y + r * 0.7), r * 0.35, (30, 30, 30))


def _mailbox(draw: ImageDraw.ImageDraw, box: Box, color: ink.Color) -> None:
    x, y, r = box
    draw.rectangle((x - r * 0.12, y, x + r * 0.12, y + r), (110, 80, 50))
    draw.rounded_rectangle((x - r * 0.6, y - r, x + r * 0.6, y), r * 0.4, color, (40, 40, 40), 2)


OBJECTS: dict[str, Callable[[ImageDraw.ImageDraw, Box, ink.Color], None]] = {
    "ball": _ball,
    "flag": _flag,
    "umbrella": _umbrella,
    "kite": _kite,
    "car": _car,
    "mailbox": _mailbox,
}
"""Each stands in a scene once at most, so that "the ball" is one ball."""


EXTENTS = {
    "ball": (-1.0, -1.0, 1.0, 1.0),
    "flag": (-0.6, -1.0, 0.9, 1.0),
    "umbrella": (-1.0, -1.0, 1.0, 1.0),
    "kite": (-0.7, -1.0, 0.7, 2.2),
    "car": (-1.6, -0.8, 1.6, 1.05),
    "mailbox": (-0.6, -1.0, 0.6, 1.0),
}
"""Left, top, right and bottom of an object from its center, by half its height."""


def rows(
    seed: int, categories: Sequence[str] = ("direct_attributes", "relative_position"), *, annotated: bool = False
) -> Iterator[Row]:
    """Returns scenes without end, of two categories in turn: questions on attributes, and on positions.

    Args:
        seed: The seed.
        categories: The names of the two.
        annotated: Whether a row has the names and boxes of what it asks about, as the authors' annotations do.
    """
    for index in itertools.count():
        rng = ink.generator("vstar", seed, index)
        category = categories[index % 2]
        placed = place(rng)
        ask = (attribute, position)[index % 2]
        question, options, right = ask(rng, placed)
        listed = "\n".join(f"({letter}) {option}" for letter, option in zip("ABCD", options, strict=False))
        fields: dict[str, Any] = {
            "text": f"{question}\n{listed}\n{INSTRUCTION}",
            "label": "ABCD"[options.index(right)],
            "category": category,
            "question_id": index,
        }
        if annotated:
            targets = [name for name in placed if name in question]
            fields |= {"targets": targets, "boxes": [bounds(name, placed[name][0]) for name in targets]}
        yield ink.synthetic_row(fields, partial(picture, placed, rng.random()))


def bounds(name: str, box: Box) -> list[float]:
    """Returns x, y, width and height, in pixels, of a drawn object."""
    x, y, r = box
    left, top, right, bottom = EXTENTS[name]
    return [round(number, 2) for number in (x + left * r, y + top * r, (right - left) * r, (bottom - top) * r)]


Placed = dict[str, tuple[Box, str]]


def place(rng: random.Random) -> Placed:
    """Returns three to five objects with box and color, in columns of their own."""
    names = rng.sample(list(OBJECTS), rng.randint(3, 5))
    columns = rng.sample(range(8), len(names))
    placed: Placed = {}
    for name, column in zip(names, columns, strict=True):
        y = rng.uniform(150, 450) if name == "kite" else rng.uniform(HORIZON + 120, HEIGHT - 120)
        box = (128 + column * 256 + rng.uniform(-40, 40), y, rng.uniform(24, 36))
        placed[name] = box, rng.choice(list(COLORS))
    return placed


def attribute(rng: random.Random, placed: Placed) -> tuple[str, list[str], str]:
    """Returns a question on a color, its four options and the right one."""
    name = rng.choice(list(placed))
    right = placed[name][1]
    options = [right, *rng.sample([color for color in COLORS if color != right], 3)]
    rng.shuffle(options)
    return f"What is the color of the {name}?", options, right


def position(rng: random.Random, placed: Placed) -> tuple[str, list[str], str]:
    """Returns a question on where two objects stand to each other, its two options and the right one."""
    one, other = rng.sample(list(placed), 2)
    sides = ["left", "right"]
    rng.shuffle(sides)
    question, right = side(placed, one, other)
    options = [f"The {one} is on the {word} side of the {other}." for word in sides]
    return question, options, options[sides.index(right)]


def side(placed: Placed, one: str, other: str) -> tuple[str, str]:
    """Returns the question on which side of another object one stands, and "left" or "right"."""
    where = "left" if placed[one][0][0] < placed[other][0][0] else "right"
    return f"Is the {one} on the left or right side of the {other}?", where


def picture(placed: Placed, start: float) -> bytes:
    """Returns a scene as a JPEG."""
    image = background(start)
    paint(image, placed)
    return encoded(image, "JPEG", quality=90)


def background(start: float) -> Image.Image:
    """Returns a street under a sky, without objects."""
    rng = random.Random(start)
    image = Image.new("RGB", (WIDTH, HEIGHT))
    draw = ImageDraw.Draw(image)
    for y in range(HEIGHT):
        if y < HORIZON:
            color = (120 + y * 90 // HORIZON, 175 + y * 50 // HORIZON, 235)
        else:
            color = (105 + (HEIGHT - y) // 20, 150 - (y - HORIZON) // 20, 90)
        draw.line((0, y, WIDTH, y), color)
    for _ in range(rng.randint(8, 12)):
        _house(draw, rng)
    for _ in range(rng.randint(25, 40)):
        _tree(draw, rng)
    # Camera noise, so that no surface is flat; objects come after it and stay sharp.
    noise = Image.frombytes("L", (WIDTH // 4, HEIGHT // 4), rng.randbytes(WIDTH * HEIGHT // 16))
    grain = noise.resize((WIDTH, HEIGHT)).filter(ImageFilter.GaussianBlur(1))
    return Image.blend(image, Image.merge("RGB", (grain, grain, grain)), 0.12)


def paint(image: Image.Image, placed: Placed) -> None:
    """Draws objects into a scene."""
    draw = ImageDraw.Draw(image)
    for name, (box, color_name) in placed.items():
        OBJECTS[name](draw, box, COLORS[color_name])


def _house(draw: ImageDraw.ImageDraw, rng: random.Random) -> None:
    x, width, height = rng.randint(-50, WIDTH), rng.randint(120, 260), rng.randint(120, 420)
    wall = rng.choice(((176, 160, 140), (150, 140, 135), (196, 186, 170), (140, 120, 110)))
    draw.rectangle((x, HORIZON - height, x + width, HORIZON + 10), wall, (90, 80, 75), 3)
    for floor in range(20, height - 40, 60):
        for window in range(20, width - 30, 50):
            draw.rectangle(
                (x + window, HORIZON - height + floor, x + window + 24, HORIZON - height + floor + 34), (90, 110, 125)
            )


def _tree(draw: ImageDraw.ImageDraw, rng: random.Random) -> None:
    x, y, r = rng.randint(0, WIDTH), rng.randint(HORIZON - 10, HORIZON + 90), rng.randint(25, 60)
    draw.rectangle((x - r * 0.15, y, x + r * 0.15, y + r), (95, 75, 50))
    green = (rng.randint(40, 80), rng.randint(95, 135), rng.randint(40, 70))
    for dx, dy in ((0, -0.6), (-0.5, -0.2), (0.5, -0.2)):
        ink.dot(draw, (x + dx * r, y + dy * r), r * 0.7, green)
