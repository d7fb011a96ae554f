"""Training data on V*-Bench's scenes: color and position of objects."""

from __future__ import annotations

import itertools
import random
from functools import lru_cache, partial

from PIL import Image

from demo_model.training_data import Example, Mark, squeezed
from orchestrator.benchmarks.vstar import synthetic
from orchestrator.benchmarks.vstar.prompt import INSTRUCTION, LETTERS, listed

_SCENES_ON_ONE_STREET = 40


def example(rng: random.Random, number: int, easy: bool) -> Example:
    """Returns a scene with questions about several of its objects."""
    placed = synthetic.place(rng)
    marks = [
        Mark(0, box[0] / synthetic.WIDTH, box[1] / synthetic.HEIGHT, (name, color))
        for name, (box, color) in placed.items()
    ]
    questions = [rng.choice((_description, _presence, _side))(rng, placed)]
    if easy:
        questions += [_color(name, placed[name][1]) for name in rng.sample(list(placed), 2)]
        questions += [_half(name, box) for name, (box, _) in placed.items()]
        questions += [synthetic.side(placed, *rng.sample(pair, 2)) for pair in itertools.combinations(placed, 2)]
    questions += [_asked(rng, placed) for _ in range(3 if easy else 6)]
    return Example(
        "vstar", (partial(_picture, number // _SCENES_ON_ONE_STREET, placed),), tuple(questions), tuple(marks)
    )


def _picture(street: int, placed: synthetic.Placed) -> Image.Image:
    image = _street(street).copy()
    synthetic.paint(image, placed)
    return squeezed(image)


@lru_cache(maxsize=2)
def _street(number: int) -> Image.Image:
    """Returns a street; cached because it takes ten times as long to draw as its objects."""
    return synthetic.background(random.Random(f"street/{number}").random())


def _asked(rng: random.Random, placed: synthetic.Placed) -> tuple[str, str]:
    question, options, right = rng.choice((synthetic.attribute, synthetic.position))(rng, placed)
    if rng.random() < 0.3:
        return listed(question, options), right
    return f"{listed(question, options)}\n{INSTRUCTION}", LETTERS[options.index(right)]


def _description(_: random.Random, placed: synthetic.Placed) -> tuple[str, str]:
    ordered = sorted(placed, key=lambda name: placed[name][0][0])
    return "Describe the image.", f"From left to right: {', '.join(f'a {placed[n][1]} {n}' for n in ordered)}."


def _presence(rng: random.Random, placed: synthetic.Placed) -> tuple[str, str]:
    name = rng.choice(list(synthetic.OBJECTS))
    question = f"Is there a {name} in the image? Please answer yes or no."
    return question.replace(" a u", " an u"), "Yes" if name in placed else "No"


def _color(name: str, color: str) -> tuple[str, str]:
    return f"What is the color of the {name}?", color


def _half(name: str, box: synthetic.Box) -> tuple[str, str]:
    return f"Is the {name} in the left or right half of the image?", "left" if box[0] < synthetic.WIDTH / 2 else "right"


def _side(rng: random.Random, placed: synthetic.Placed) -> tuple[str, str]:
    question, _, right = synthetic.position(rng, placed)
    if rng.random() < 0.5:
        return f"{question} Answer in a sentence.", right
    return question, "left" if " left side" in right else "right"
