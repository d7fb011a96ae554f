"""The texts of VOILA's tables on a question, exact to the last blank, and how to read them."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

from orchestrator.benchmarks.voila.rules import ACTIONS, ANY, NUMBERS, SUBJECTS, Question, Spec


@cache
def words(spec: Spec) -> tuple[str, str, str]:
    """Returns the words of number, subject and action; the subject is singular beside "one", else plural."""
    return (
        "any" if spec.number == ANY else NUMBERS[spec.number],
        "any" if spec.subject == ANY else SUBJECTS[spec.subject][spec.number == 0],
        "any" if spec.action == ANY else ACTIONS[spec.action],
    )


@cache
def describe(spec: Spec) -> str:
    """Returns "{number} {subject} {action}"."""
    return " ".join(words(spec))


@cache
def wanted_image(spec: Spec) -> str:
    """Returns the answer without its "any" words: the content that an image of it must have.

    The reference leaves a blank at the end where the action is "any"; this does not.
    """
    return " ".join(word for word in words(spec) if word != "any")


def combined_description(question: Question) -> str:
    """Returns the truth of step 1."""
    first, second, third = map(describe, question.images)
    return f"Image 1: {first}. Image 2: {second}. Image 3: {third}"


def relations(question: Question) -> str:
    """Returns the truth of step 2: how image 2 differs from image 1. It ends with a blank."""
    first, second, _ = question.images
    numbers, subjects, actions = zip(words(first), words(second), strict=True)
    return (
        _relation("Number", first.number == second.number, *numbers)
        + _relation("Action", first.action == second.action, *actions)
        + _relation("Subject type", first.subject == second.subject, *subjects)
    )


@cache
def _relation(name: str, constant: bool, first: str, second: str) -> str:
    return f"{name} remains constant {first}. " if constant else f"{name} is changed from {first} to {second}. "


def file_prefix(spec: Spec) -> str:
    """Returns how the name of every image of a spec starts: "two_cats_driving a car_"."""
    return "_".join((*words(spec), ""))


SPECS = tuple(map(Spec._make, product(range(len(NUMBERS)), range(len(SUBJECTS)), range(len(ACTIONS)))))
"""The 728 things an image can show."""

_BY_DESCRIPTION = {describe(spec): spec for spec in SPECS}
_IMAGE = re.compile(r"Image ([123]): ?")


def read_description(text: str) -> Spec | None:
    """Returns the spec that a description of one image names, None if it names none."""
    return _BY_DESCRIPTION.get(text.strip())


def read_combined(text: str) -> tuple[Spec, Spec, Spec] | None:
    """Reads three descriptions in one text, with or without a blank after "Image 1:"."""
    pieces = _IMAGE.split(text.strip())
    if len(pieces) != 7 or pieces[1::2] != ["1", "2", "3"]:
        return None
    first, second, third = (read_description(piece.strip().removesuffix(".")) for piece in pieces[2::2])
    return (first, second, third) if first and second and third else None
