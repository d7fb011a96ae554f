"""Training data on VOILA's pictograms: descriptions of one, of three in order, and of the changes between them."""

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
    """Returns an example with one pictogram, or with the three of a question."""
    if rng.random() < _SINGLE:
        spec = Spec(rng.randrange(4), rng.randrange(len(SUBJECTS)), rng.randrange(len(ACTIONS)))
        return _example(rng, [spec], _single(spec))
    rule = RULES[rng.choice(list(RULES))]
    question = rule.question(rng.randrange(rule.space))
    described = [
        (f"What does the {name} image show?", f"{describe(spec)}.")
        for name, spec in zip(_PLACES, question.images, strict=True)
    ]
    if easy:
        return _example(rng, list(question.images), described)
    describing, relating, applying = prompts(rng.choice(("voila_nd", "voila_wd")))
    seen, related, answer = combined_description(question), relations(question), question.answer
    questions = [(f"{describing} ", seen), (f"{describing} {seen} {relating} ", related.strip())]
    if rng.random() < 0.15:
        conclusion = "The answer is number = {}, subject = {}, action = {}".format(*words(answer))
        questions.append((f"{describing} {seen} {relating} {related.strip()} {applying} ", conclusion))
    questions.append(rng.choice(described))
    return _example(rng, list(question.images), questions)


def _single(spec: Spec) -> list[tuple[str, str]]:
    subject = SUBJECTS[spec.subject][1]
    return [
        ("Describe the image in one sentence.", f"{describe(spec)}."),
        (f"How many of these are in the image: {subject}? Answer with a number.", str(spec.number + 1)),
        ("What is the subject doing?", f"{words(spec)[2]}."),
        ("Who or what is in the image?", f"{words(spec)[1]}."),
    ]


def _example(rng: random.Random, specs: list[Spec], questions: list[tuple[str, str]]) -> Example:
    images, marks = [], []
    for index, spec in enumerate(specs):
        images.append(partial(_picture, spec, rng.randrange(_VARIANTS)))
        names = (SUBJECTS[spec.subject][1], ACTIONS[spec.action])
        marks += [Mark(index, x, y, names) for x, y, _ in source.CELLS[spec.number]]
    return Example("voila", tuple(images), tuple(questions), tuple(marks))


def _picture(spec: Spec, variant: int) -> Image.Image:
    with Image.open(io.BytesIO(source.draw(spec, variant))) as image:
        return squeezed(image)
