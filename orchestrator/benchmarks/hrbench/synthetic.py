"""V*-Bench's synthetic scenes in HR-Bench's schema: questions on one object and on two, in four orders of options."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import partial

from orchestrator.benchmarks import drawing as ink
from orchestrator.benchmarks.vstar.synthetic import Placed, attribute, picture, place
from orchestrator.data.rows import Row

LETTERS = "ABCD"
_PLACES = ("upper left", "upper right", "lower left", "lower right")


def rows(seed: int) -> Iterator[Row]:
    """Returns scenes without end, each with the four orders of a question, on one object and on two in turn."""
    for index in itertools.count():
        rng = ink.generator("hrbench", seed, index)
        placed = place(rng)
        question, options, right = (attribute, _corner)[index % 2](rng, placed)
        start = rng.random()
        for turn in range(len(options)):
            order = options[turn:] + options[:turn]
            fields = {
                "index": len(LETTERS) * index + turn,
                "question": question,
                **dict(zip(LETTERS, order, strict=True)),
                "answer": LETTERS[order.index(right)],
                "category": ("single", "cross")[index % 2],
                "cycle_category": str(turn),
            }
            yield ink.synthetic_row(fields, partial(picture, placed, start))


def _corner(rng: random.Random, placed: Placed) -> tuple[str, list[str], str]:
    """Returns a question on the direction of one object from another, its four options and the right one."""
    one, other = rng.sample(list(placed), 2)
    (x, y, _), (other_x, other_y, _) = placed[one][0], placed[other][0]
    right = f"{'upper' if y < other_y else 'lower'} {'left' if x < other_x else 'right'}"
    return f"In which direction from the {other} is the {one}?", list(_PLACES), right
