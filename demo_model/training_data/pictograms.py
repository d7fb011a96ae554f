"""Training data on VOILA's pictograms: describing one, describing three in order, and what changes between them."""

from __future__ import annotations

import io
import random
from functools import partial

from PIL import Image

from demo_model.training_data import Example, Mark, squeezed
from orchestrator.benchmarks.voila import synthetic as source
from orchestrator.benchmarks.voila.prompts import prompts
from orchestrator.benchmarks.voila.rules import ACTIONS, RULES, SUBJECTS, Spec
from orchestrator.benchmarks.voila.texts import (
    combined_description,
    describe,
    relations,
    words,
)

_SINGLE = 0.6
_PLACES = ("first", "second", "third")
_VARIANTS = 9


def example(rng: random.Random, number: int, easy: bool) -> Example:
    """Draws one pictogram, or the three of a question."""
    if rng.random() < _SINGLE:
        spec = Spec(rng.randrange(4), rng.randrange(len(SUBJECTS)), rng.randrange(len(ACTIONS)))
        return _example(rng, [spec], _single(spec))
    rule = RULES[rng.choice(list(RULES))]
    question = rule.question(rng.randrange(rule.space))
    each = [
        (f"What does the {name} image show?", f"{describe(spec)}.")
        for name, spec in zip(_PLACES, question.images, strict=True)
    ]
    if easy:
        return _example(rng, list(question.images), each)
    describing, relating, applying = prompts(rng.choice(("voila_nd", "voila_wd")))
    seen, related, answer = combined_description(question), relations(question), question.answer
    asked = [(f"{describing} ", seen), (f"{describing} {seen} {relating} ", related.strip())]
    if rng.random() < 0.15:
        told = "The answer is number = {}, subject = {}, action = {}".format(*words(answer))
        asked.append((f"{describing} {seen} {relating} {related.strip()} {applying} ", told))
    asked.append(rng.choice(each))
    return _example(rng, list(question.images), asked)


def _single(spec: Spec) -> list[tuple[str, str]]:
    subject = SUBJECTS[spec.subject][1]
    return [
        ("Describe the image in one sentence.", f"{describe(spec)}."),
        (f"How many of these are in the image: {subject}? Answer with a number.", str(spec.number + 1)),
        ("What is the subject doing?", f"{words(spec)[2]}."),
        ("Who or what is in the image?", f"{words(spec)[1]}."),
    ]


def _example(rng: random.Random, specs: list[Spec], asked: list[tuple[str, str]]) -> Example:
    images, marks = [], []
    for place, spec in enumerate(specs):
        images.append(partial(_picture, spec, rng.randrange(_VARIANTS)))
        words = (SUBJECTS[spec.subject][1], ACTIONS[spec.action])
        marks += [Mark(place, x, y, words) for x, y, _ in source.CELLS[spec.number]]
    return Example("voila", tuple(images), tuple(asked), tuple(marks))


def _picture(spec: Spec, variant: int) -> Image.Image:
    with Image.open(io.BytesIO(source.draw(spec, variant))) as image:
        return squeezed(image)
