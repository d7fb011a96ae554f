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


def lessons(seed: int, *, start: int = 0) -> Iterator[Lesson]:
    """Returns lessons without end; each depends on the seed and its number alone."""
    from orchestrator.synthetic.lessons import figures, pictograms, puzzles, reasoning, scenes

    makers: dict[str, Callable[[random.Random, int], Lesson]] = {
        "vstar": scenes.lesson,
        "marvel": puzzles.lesson,
        "visualpuzzles": reasoning.lesson,
        "voila": pictograms.lesson,
        "figures": figures.lesson,
    }
    shares = (34, 30, 18, 12, 6)
    number = start
    while True:
        rng = random.Random(f"lessons/{seed}/{number}")
        kind = rng.choices(list(makers), shares)[0]
        yield makers[kind](rng, number)
        number += 1
