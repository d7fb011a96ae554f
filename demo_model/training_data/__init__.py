"""Training data for a small model: drawn images, questions on them in the benchmarks' own words, and the answers.

They are made by the generators of the drawn benchmarks, from seeds of their own: no evaluation row is among them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
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
class Example:
    """Images and what can be asked about them.

    Attributes:
        kind: What drew it.
        images: Draw its images: squares of `SIDE` pixels, RGB.
        questions: Questions and answers, each to be asked alone.
        marks: What stands where in the images.
    """

    kind: str
    images: tuple[Callable[[], Image.Image], ...]
    questions: tuple[tuple[str, str], ...]
    marks: tuple[Mark, ...]


def squeezed(image: Image.Image) -> Image.Image:
    """Returns an image as a model is shown it."""
    small = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC, reducing_gap=2.0)
    return small if small.mode == "RGB" else small.convert("RGB")


MIXED, EASY = 1024, 20_000
"""Training data at the start that show everything, and those after them that ask simple questions alone."""


SHARES = {"vstar": 34, "marvel": 30, "visualpuzzles": 18, "voila": 12, "figures": 6}
_EASY_SHARES = {"vstar": 32, "marvel": 32, "visualpuzzles": 18, "voila": 10, "figures": 8}


def examples(seed: int, *, start: int = 0, shares: Mapping[str, int] = SHARES) -> Iterator[Example]:
    """Returns examples without end; each depends on the seed, its number and the shares alone.

    A model that has to find out what the questions mean, what the pictures show and how the two
    hang together learns nothing for long, so simple questions come first.
    """
    from demo_model.training_data import figures, pictograms, puzzles, reasoning, scenes

    makers: dict[str, Callable[[random.Random, int, bool], Example]] = {
        "vstar": scenes.example,
        "marvel": puzzles.example,
        "visualpuzzles": reasoning.example,
        "voila": pictograms.example,
        "figures": figures.example,
    }
    number = start
    while True:
        rng = random.Random(f"lessons/{seed}/{number}")
        easy = MIXED <= number < MIXED + EASY
        weights = _EASY_SHARES if easy else shares
        kind = rng.choices(list(makers), [weights[kind] for kind in makers])[0]
        yield makers[kind](rng, number, easy)
        number += 1
