"""Lessons on V*-Bench's scenes: what color an object has, and where it stands."""

from __future__ import annotations

import itertools
import random
from functools import lru_cache

from PIL import Image

from orchestrator.benchmarks.vstar import INSTRUCTION, LETTERS, listed
from orchestrator.synthetic import vstar
from orchestrator.synthetic.lessons import Lesson, Mark, squeezed

_SCENES_ON_ONE_STREET = 40


def lesson(rng: random.Random, number: int) -> Lesson:
    """Draws a scene and asks about several of its objects."""
    placed = vstar.place(rng)
    image = _street(number // _SCENES_ON_ONE_STREET).copy()
    vstar.paint(image, placed)
    marks = [
        Mark(0, box[0] / vstar.WIDTH, box[1] / vstar.HEIGHT, (name, color)) for name, (box, color) in placed.items()
    ]
    asked = [_asked(rng, placed) for _ in range(6)]
    asked.append(rng.choice((_description, _presence, _open))(rng, placed))
    return Lesson("vstar", (squeezed(image),), tuple(asked), tuple(marks))


@lru_cache(maxsize=2)
def _street(number: int) -> Image.Image:
    """Drawing a street takes ten times as long as what stands in it."""
    return vstar.background(random.Random(f"street/{number}").random())


def _asked(rng: random.Random, placed: vstar.Placed) -> tuple[str, str]:
    question, options, right = rng.choice((vstar.attribute, vstar.position))(rng, placed)
    if rng.random() < 0.3:
        return listed(question, options), right
    return f"{listed(question, options)}\n{INSTRUCTION}", LETTERS[options.index(right)]


def _description(_: random.Random, placed: vstar.Placed) -> tuple[str, str]:
    ordered = sorted(placed, key=lambda name: placed[name][0][0])
    return "Describe the image.", f"From left to right: {', '.join(f'a {placed[n][1]} {n}' for n in ordered)}."


def _presence(rng: random.Random, placed: vstar.Placed) -> tuple[str, str]:
    name = rng.choice(list(vstar.OBJECTS))
    question = f"Is there a {name} in the image? Please answer yes or no."
    return question.replace(" a u", " an u"), "Yes" if name in placed else "No"


def _open(rng: random.Random, placed: vstar.Placed) -> tuple[str, str]:
    name = rng.choice(list(placed))
    color = placed[name][1]
    forms = [
        (f"What is the color of the {name}?", color),
        (f"What is the color of the {name}? Answer in a sentence.", f"The {name} is {color}."),
    ]
    for one, other in itertools.islice(itertools.permutations(placed, 2), 2):
        side = "left" if placed[one][0][0] < placed[other][0][0] else "right"
        question = f"Is the {one} on the left or right side of the {other}? Answer in a sentence."
        forms.append((question, f"The {one} is on the {side} side of the {other}."))
    return rng.choice(forms)
