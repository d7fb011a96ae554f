"""Training data for a small model: synthetic images, questions on them in the benchmarks' wording, and the answers.

The generators of the synthetic benchmarks make them from separate seeds: no evaluation row is among them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from PIL import Image

SIDE = 256
"""Side of the square images in pixels; images that are not square are squeezed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An object at a position in an image.

    Attributes:
        image: Index of the image, from 0.
        x: From 0 at the left to 1.
        y: From 0 at the top to 1.
        words: Names of the object.
    """

    image: int
    x: float
    y: float
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """Images with questions about them.

    Attributes:
        kind: Its generator.
        images: Functions that draw its images: squares of `SIDE` pixels, RGB.
        questions: Questions and answers, each for a separate request.
        marks: Objects in the images with their positions.
    """

    kind: str
    images: tuple[Callable[[], Image.Image], ...]
    questions: tuple[tuple[str, str], ...]
    marks: tuple[Mark, ...]


def squeezed(image: Image.Image) -> Image.Image:
    """Returns an image in the size and mode that the model takes."""
    small = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC, reducing_gap=2.0)
    return small if small.mode == "RGB" else small.convert("RGB")


MIXED, EASY = 1024, 20_000
"""Number of examples of all kinds at the start, and of simple ones after them."""


SHARES = {"vstar": 34, "marvel": 30, "visualpuzzles": 18, "voila": 12, "figures": 6}
_EASY_SHARES = {"vstar": 32, "marvel": 32, "visualpuzzles": 18, "voila": 10, "figures": 8}


def examples(seed: int, *, start: int = 0, shares: Mapping[str, int] = SHARES) -> Iterator[Example]:
    """Yields examples without end; each depends only on the seed, its number and the shares.

    A model that has to learn the meaning of questions, the content of pictures and their relation at once makes no
    progress for a long time, so simple questions come first.
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
