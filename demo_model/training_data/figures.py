"""Training data on colored figures: names, colors, counts and positions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial

from PIL import Image, ImageDraw

from demo_model.training_data import SIDE, Example, Mark
from orchestrator.benchmarks import drawing as ink
from orchestrator.benchmarks.vstar.synthetic import COLORS

_COLORS = {**COLORS, "green": (40, 150, 70)}
_CELLS = 4
Figure = tuple[int, int, str, str]
"""Column, line, shape and color."""


def example(rng: random.Random, number: int, easy: bool) -> Example:
    """Returns two to seven figures on a plain ground, with questions about them."""
    ground = rng.choice(((200, 205, 210), (225, 220, 200), (180, 200, 185)))
    cells = rng.sample([(x, y) for x in range(_CELLS) for y in range(_CELLS)], rng.randint(2, 4 if easy else 7))
    placed: list[Figure] = [(x, y, rng.choice(ink.SHAPES), rng.choice(list(_COLORS))) for x, y in sorted(cells)]
    marks, sizes = [], []
    for column, line, name, color in placed:
        x, y = ((cell + rng.uniform(0.4, 0.6)) / _CELLS for cell in (column, line))
        marks.append(Mark(0, x, y, (name, color)))
        sizes.append(rng.uniform(20, 52))
    return Example("figures", (partial(_picture, ground, marks, sizes),), tuple(_asked(rng, placed)), tuple(marks))


def _picture(ground: ink.Color, marks: Sequence[Mark], sizes: Sequence[float]) -> Image.Image:
    side = SIDE * ink.SCALE
    image = Image.new("RGB", (side, side), ground)
    draw = ImageDraw.Draw(image)
    for mark, size in zip(marks, sizes, strict=True):
        name, color = mark.words
        at = (mark.x * side, mark.y * side)
        ink.shape(draw, name, at, size, fill=_COLORS[color], outline=(40, 40, 40), width=3)
    return ink.halved(image)


def _asked(rng: random.Random, placed: list[Figure]) -> list[tuple[str, str]]:
    color = rng.choice(placed)[3]
    questions = [
        ("How many figures are in the image? Answer with a number.", str(len(placed))),
        (f"How many figures are {color}? Answer with a number.", str(sum(one[3] == color for one in placed))),
        ("Describe the image.", f"From left to right: {', '.join(f'a {one[3]} {one[2]}' for one in placed)}."),
    ]
    names, colors = Counter(one[2] for one in placed), Counter(one[3] for one in placed)
    questions += [(f"What is the color of the {one[2]}?", one[3]) for one in placed if names[one[2]] == 1]
    questions += [(f"What shape is {one[3]}?", one[2]) for one in placed if colors[one[3]] == 1]
    first, *_, last = placed
    if first[0] != last[0] and first[2] != last[2] and all(one[2] not in (first[2], last[2]) for one in placed[1:-1]):
        options = ["left", "right"]
        rng.shuffle(options)
        listed = "\n".join(f"{letter}. {option}" for letter, option in zip("AB", options, strict=True))
        question = f"On which side of the {last[2]} is the {first[2]}?\n{listed}\nAnswer with the option's letter."
        questions.append((question, "AB"[options.index("left")]))
    return questions
