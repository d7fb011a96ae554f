"""Lessons for a small model: drawn images, questions on them in the benchmarks' own words, and the answers.

They are made by the generators of the drawn benchmarks, from seeds of their own: no evaluation row is among them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from PIL import Image

SIDE = 256
"""Images are squares of this many pixels; what is not square is squeezed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands somewhere in an image.

    Attributes:
        image: Which image, from 0.
        x: From 0 at the left to 1.
        y: From 0 at the top to 1.
        words: What is there.
    """

    image: int
    x: float
    y: float
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lesson:
    """Images and what can be asked about them.

    Attributes:
        kind: What drew it.
        images: Squares of `SIDE` pixels, RGB.
        questions: Questions and answers, each to be asked alone.
        marks: What stands where in the images.
    """

    kind: str
    images: tuple[Image.Image, ...]
    questions: tuple[tuple[str, str], ...]
    marks: tuple[Mark, ...]


def squeezed(image: Image.Image) -> Image.Image:
    """Returns an image as a model is shown it."""
    small = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC, reducing_gap=2.0)
    return small if small.mode == "RGB" else small.convert("RGB")


MIXED, EASY = 1024, 20_000
"""Lessons at the start that show everything, and those after them that ask simple questions alone."""


def lessons(seed: int, *, start: int = 0) -> Iterator[Lesson]:
    """Returns lessons without end; each depends on the seed and its number alone.

    A model that has to find out what the questions mean, what the pictures show and how the two
    hang together learns nothing for long, so simple questions come first.
    """
    from orchestrator.synthetic.lessons import figures, pictograms, puzzles, reasoning, scenes

    makers: dict[str, Callable[[random.Random, int, bool], Lesson]] = {
        "vstar": scenes.lesson,
        "marvel": puzzles.lesson,
        "visualpuzzles": reasoning.lesson,
        "voila": pictograms.lesson,
        "figures": figures.lesson,
    }
    shares, easy_shares = (34, 30, 18, 12, 6), (30, 25, 15, 15, 15)
    number = start
    while True:
        rng = random.Random(f"lessons/{seed}/{number}")
        easy = MIXED <= number < MIXED + EASY
        kind = rng.choices(list(makers), easy_shares if easy else shares)[0]
        yield makers[kind](rng, number, easy)
        number += 1
