"""Puzzles of VisualPuzzles' five categories, in its schema, drawn from a seed with known answers.

Inductive, analogical and spatial puzzles have their options in the image (null options in the
schema, as most of the benchmark's), the others in the text.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from PIL import Image, ImageDraw

from orchestrator.benchmarks import drawing as ink
from orchestrator.benchmarks.visualpuzzles.prompts import CATEGORIES
from orchestrator.data.rows import Row

WIDTH, HEIGHT = 1200, 900
BALLS = {"red": (214, 40, 40), "blue": (40, 80, 220), "green": (40, 150, 70), "yellow": (245, 200, 30)}
FIGURES = ("triangle", "square", "pentagon", "star")

PLACES: tuple[ink.Point, ...] = tuple((360 + i * 560, 1250) for i in range(4))
"""Positions of the drawn options."""

Figure = tuple[str, bool, int]
"""A shape, whether it is filled, and the number of dots below it."""
Cells = tuple[tuple[int, int], ...]
"""The cells of a block figure."""
Painter = Callable[[ImageDraw.ImageDraw], None]
Seen = tuple[ink.Point, tuple[str, ...]]
"""A place in the drawing at twice its size, and words for what stands there."""


@dataclass(frozen=True)
class Puzzle:
    """A puzzle before it is drawn.

    Attributes:
        question: Its text.
        options: Their texts; None where they are drawn.
        answer: Letter of the right option.
        paint: Draws it at twice its size.
        steps: The reasons for the answer, in words.
        seen: Places in the drawing, with words for their content.
    """

    question: str
    options: list[str] | None
    answer: str
    paint: Painter
    steps: str
    seen: Sequence[Seen]


def rows(seed: int) -> Iterator[Row]:
    """Returns puzzles without end, of the five categories in turn."""
    for index in itertools.count():
        category = CATEGORIES[index % len(CATEGORIES)]
        puzzle = MAKERS[category](ink.generator("visualpuzzles", seed, index))
        fields: dict[str, Any] = {
            "id": index,
            "category": category,
            "question": puzzle.question,
            "options": puzzle.options,
            "answer": puzzle.answer,
        }
        yield ink.synthetic_row(fields, partial(_encoded, puzzle))


def _encoded(puzzle: Puzzle) -> bytes:
    return ink.png(ink.halved(picture(puzzle)))


def picture(puzzle: Puzzle) -> Image.Image:
    """Returns a puzzle at twice its size."""
    image = Image.new("RGB", (WIDTH * ink.SCALE, HEIGHT * ink.SCALE), "white")
    puzzle.paint(ImageDraw.Draw(image))
    return image


def _lettered(rng: random.Random, right: str, wrong: Sequence[str]) -> tuple[list[str], str]:
    options = [right, *wrong]
    rng.shuffle(options)
    return options, "ABCD"[options.index(right)]


def _algorithmic(rng: random.Random) -> Puzzle:
    times, plus = rng.randint(2, 4), rng.randint(1, 9)
    numbers = rng.sample(range(2, 12), 4)
    results = [times * n + plus for n in numbers]
    right = results[-1]
    near = [right + d for d in (-times, -plus, -1, 1, plus, times) if right + d > 0]
    options, answer = _lettered(rng, str(right), [str(n) for n in rng.sample(sorted(set(near)), 3)])

    def paint(draw: ImageDraw.ImageDraw) -> None:
        for i, (number, result) in enumerate(zip(numbers, [*map(str, results[:-1]), "?"], strict=True)):
            y = 240 + i * 440
            ink.words(draw, (500, y), str(number), 140)
            ink.arrow(draw, (680, y), (980, y), width=10)
            draw.rounded_rectangle((1020, y - 130, 1380, y + 130), 40, (225, 232, 245), (60, 80, 130), 8)
            ink.words(draw, (1200, y), "machine", 76)
            ink.arrow(draw, (1420, y), (1720, y), width=10)
            ink.words(draw, (1900, y), result, 140)

    question = "The machine treats every number in the same way. Which number replaces the question mark?"
    pairs = list(zip(numbers, results, strict=True))
    premises = ", ".join(f"{number} to {result}" for number, result in pairs[:-1])
    steps = f"The machine turns {premises}. It makes {times} x n + {plus}. It turns {numbers[-1]} to {right}."
    seen: list[Seen] = [((500, 240 + i * 440), (f"{number}",)) for i, (number, _) in enumerate(pairs)]
    seen += [((1900, 240 + i * 440), (f"{result}",)) for i, (_, result) in enumerate(pairs[:-1])]
    return Puzzle(question, options, answer, paint, steps, seen)


def _deductive(rng: random.Random) -> Puzzle:
    order = rng.sample(list(BALLS), 4)
    pairs = list(itertools.pairwise(order))
    rng.shuffle(pairs)
    heaviest = rng.random() < 0.5
    right = order[0] if heaviest else order[-1]
    options = list(BALLS)
    rng.shuffle(options)

    def paint(draw: ImageDraw.ImageDraw) -> None:
        for i, (heavy, light) in enumerate(pairs):
            x, y = 440 + i * 760, 820
            left_heavy = (ord(heavy[0]) + i) % 2 == 0
            low, high = (x - 240, y + 130), (x + 240, y - 130)
            if not left_heavy:
                low, high = (x + 240, y + 130), (x - 240, y - 130)
            draw.polygon([(x, y), (x - 90, y + 330), (x + 90, y + 330)], (150, 150, 150), 0, 6)
            draw.line((low, high), 0, 16)
            for (bx, by), name in ((low, heavy), (high, light)):
                ink.dot(draw, (bx, by - 90), 86, (40, 40, 40))
                ink.dot(draw, (bx, by - 90), 80, BALLS[name])

    kind = "heaviest" if heaviest else "lightest"
    question = f"Each scale tilts towards the heavier ball. Which ball is the {kind}?"
    premises = ", ".join(f"{heavy} is heavier than {light}" for heavy, light in pairs)
    steps = f"{premises[0].upper()}{premises[1:]}. From heavy to light: {', '.join(order)}. The {kind} is {right}."
    seen = [((440 + i * 760, 820), (f"{heavy} low", f"{light} high")) for i, (heavy, light) in enumerate(pairs)]
    return Puzzle(question, options, "ABCD"[options.index(right)], paint, steps, seen)


def _inductive(rng: random.Random) -> Puzzle:
    names = rng.sample(FIGURES, rng.randint(2, 3))
    fills = rng.sample((True, False), 2)
    sequence: list[Figure] = [(names[i % len(names)], fills[i % 2], 0) for i in range(7)]
    right = sequence.pop()
    shape, filled, _ = right
    other = rng.choice([name for name in FIGURES if name != shape])
    options: list[Figure] = [right, (shape, not filled, 0), (other, filled, 0), (other, not filled, 0)]
    rng.shuffle(options)

    def paint(draw: ImageDraw.ImageDraw) -> None:
        for i, figure in enumerate(sequence):
            _figure(draw, (280 + i * 290, 500), 110, figure)
        ink.words(draw, (280 + 6 * 290, 500), "?", 180)
        _options(draw, lambda at, i: _figure(draw, at, 130, options[i]))

    premises = ", ".join(map(_named, sequence))
    steps = f"The figures are {premises}. Next comes {_named(right)}. {_listed(options)}"
    seen = [((280 + i * 290.0, 500.0), (f"figure {i + 1}", *_words(figure))) for i, figure in enumerate(sequence)]
    seen += _options_seen(options)
    return Puzzle("Which figure comes next?", None, "ABCD"[options.index(right)], paint, steps, seen)


def _analogical(rng: random.Random) -> Puzzle:
    first, third = rng.sample(FIGURES, 2)
    dots = rng.sample(range(4), 2)
    more = rng.randint(1, 2)
    fill = rng.random() < 0.5

    def changed(figure: Figure) -> Figure:
        return figure[0], not figure[1], figure[2] + more

    start: Figure = (first, fill, dots[0])
    source: Figure = (third, fill, dots[1])
    right = changed(source)
    options: list[Figure] = [
        right,
        (third, fill, right[2]),
        (third, not fill, right[2] + 1),
        (first, not fill, right[2]),
    ]
    rng.shuffle(options)
    shown = tuple(zip(((400.0, 460.0), (900.0, 460.0), (1500.0, 460.0)), (start, changed(start), source), strict=True))

    def paint(draw: ImageDraw.ImageDraw) -> None:
        for at, figure in shown:
            _figure(draw, at, 130, figure)
        ink.words(draw, (2000, 460), "?", 180)
        for x in (650, 1750):
            ink.words(draw, (x, 460), ":", 140)
        ink.words(draw, (1200, 460), "::", 140)
        _options(draw, lambda at, i: _figure(draw, at, 110, options[i]))

    question = "The second figure is to the first as which figure is to the third?"
    premises = f"{_named(start)} is to {_named(changed(start))} as {_named(source)} is to {_named(right)}"
    seen = [(at, (f"figure {i + 1}", *_words(figure))) for i, (at, figure) in enumerate(shown)]
    seen += _options_seen(options)
    steps = f"{premises[0].upper()}{premises[1:]}. {_listed(options)}"
    return Puzzle(question, None, "ABCD"[options.index(right)], paint, steps, seen)


BLOCKS: tuple[Cells, ...] = (
    ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1)),
    ((0, 0), (0, 1), (1, 1), (1, 2), (1, 3), (2, 3), (2, 2)),
    ((0, 0), (0, 1), (0, 2), (1, 1), (2, 1), (2, 2)),
    ((0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 0), (2, 0)),
    ((0, 1), (0, 2), (1, 0), (1, 1), (2, 1), (2, 2), (3, 1)),
)


def _turned(cells: Cells, times: int, mirrored: bool = False) -> Cells:
    """Returns a block figure mirrored, then turned clockwise by quarters, against the corner."""
    moved = [(-x, y) if mirrored else (x, y) for x, y in cells]
    for _ in range(times):
        moved = [(-y, x) for x, y in moved]
    left, top = min(x for x, _ in moved), min(y for _, y in moved)
    return tuple(sorted((x - left, y - top) for x, y in moved))


def _spatial(rng: random.Random) -> Puzzle:
    cells = _turned(rng.choice(CHIRAL), rng.randrange(4), rng.random() < 0.5)
    right = _turned(cells, rng.randint(1, 3))
    wrong = [_turned(cells, times, mirrored=True) for times in rng.sample(range(4), 3)]
    options = [right, *wrong]
    rng.shuffle(options)

    def paint(draw: ImageDraw.ImageDraw) -> None:
        _block(draw, (1200, 480), 100, cells)
        _options(draw, lambda at, i: _block(draw, at, 64, options[i]))

    question = "Which option is the upper figure turned in the plane, and not its mirror image?"
    letter = "ABCD"[options.index(right)]
    return Puzzle(question, None, letter, paint, f"The others are mirrored; {letter} is only turned.", [])


def _is_chiral(cells: Cells) -> bool:
    """Returns True if all eight rotations and mirror images differ, so that only one option is right."""
    return len({_turned(cells, times, mirrored) for times in range(4) for mirrored in (False, True)}) == 8


CHIRAL: tuple[Cells, ...] = tuple(cells for cells in BLOCKS if _is_chiral(cells))


def _named(figure: Figure) -> str:
    name, filled, dots = figure
    below = "" if not dots else " with 1 dot" if dots == 1 else f" with {dots} dots"
    return f"a filled {name}{below}" if filled else f"an empty {name}{below}"


def _words(figure: Figure) -> tuple[str, ...]:
    name, filled, dots = figure
    return name, "filled" if filled else "empty", f"{dots} dots"


def _options_seen(options: Sequence[Figure]) -> list[Seen]:
    return [(at, (letter, *_words(option))) for letter, at, option in zip("ABCD", PLACES, options, strict=True)]


def _listed(options: Sequence[Figure]) -> str:
    return " ".join(f"{letter} is {_named(option)}." for letter, option in zip("ABCD", options, strict=True))


def _figure(draw: ImageDraw.ImageDraw, at: ink.Point, radius: float, figure: Figure) -> None:
    name, filled, dots = figure
    ink.shape(draw, name, at, radius, fill=(60, 60, 60) if filled else None, width=10)
    for i in range(dots):
        ink.dot(draw, (at[0] + (i - (dots - 1) / 2) * 50, at[1] + radius + 40), 17)


def _block(draw: ImageDraw.ImageDraw, at: ink.Point, side: int, cells: Cells) -> None:
    width, height = max(x for x, _ in cells) + 1, max(y for _, y in cells) + 1
    for x, y in cells:
        left, top = at[0] + (x - width / 2) * side, at[1] + (y - height / 2) * side
        draw.rectangle((left, top, left + side, top + side), (120, 160, 215), (20, 40, 80), 6)


def _options(draw: ImageDraw.ImageDraw, paint: Callable[[ink.Point, int], None]) -> None:
    """Draws the four options in a row, their letters beneath."""
    for i, (letter, (x, y)) in enumerate(zip("ABCD", PLACES, strict=True)):
        draw.rectangle((x - 240, 1000, x + 240, 1520), None, (90, 90, 90), 6)
        paint((x, y), i)
        ink.words(draw, (x, 1610), f"({letter})", 90)


MAKERS: dict[str, Callable[[random.Random], Puzzle]] = {
    "algorithmic": _algorithmic,
    "analogical": _analogical,
    "deductive": _deductive,
    "inductive": _inductive,
    "spatial": _spatial,
}
"""Category -> how its puzzles are made."""
