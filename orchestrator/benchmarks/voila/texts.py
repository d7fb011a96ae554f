"""What VOILA's tables say about a question, to the last blank, and reading it back."""

from __future__ import annotations

import re
from functools import cache

from orchestrator.benchmarks.voila.rules import ACTIONS, ANY, NUMBERS, SUBJECTS, Question, Spec


def number_text(spec: Spec) -> str:
    """Returns the number's word, "any" in an answer."""
    return "any" if spec.number == ANY else NUMBERS[spec.number]


def subject_text(spec: Spec) -> str:
    """Returns the subject's name: singular beside "one", plural beside all else, "any" included."""
    return "any" if spec.subject == ANY else SUBJECTS[spec.subject][spec.number == 0]


def action_text(spec: Spec) -> str:
    """Returns the action's name, "any" in an answer."""
    return "any" if spec.action == ANY else ACTIONS[spec.action]


@cache
def describe(spec: Spec) -> str:
    """Returns "{number} {subject} {action}"."""
    return f"{number_text(spec)} {subject_text(spec)} {action_text(spec)}"


@cache
def wanted_image(spec: Spec) -> str:
    """Returns the answer without its "any" words: what an image of it has to show.

    The reference leaves a blank at the end where the action is "any"; this does not.
    """
    return " ".join(word for word in (number_text(spec), subject_text(spec), action_text(spec)) if word != "any")


def combined_description(question: Question) -> str:
    """Returns the truth of step 1."""
    first, second, third = map(describe, question.images)
    return f"Image 1: {first}. Image 2: {second}. Image 3: {third}"


def relations(question: Question) -> str:
    """Returns the truth of step 2: how image 2 differs from image 1. It ends with a blank."""
    first, second, _ = question.images
    return (
        _relation("Number", first.number == second.number, number_text(first), number_text(second))
        + _relation("Action", first.action == second.action, action_text(first), action_text(second))
        + _relation("Subject type", first.subject == second.subject, subject_text(first), subject_text(second))
    )


@cache
def _relation(name: str, constant: bool, first: str, second: str) -> str:
    return f"{name} remains constant {first}. " if constant else f"{name} is changed from {first} to {second}. "


def file_prefix(spec: Spec) -> str:
    """Returns how the name of every image of a spec starts: "two_cats_driving a car_"."""
    return f"{number_text(spec)}_{subject_text(spec)}_{action_text(spec)}_"


SPECS = tuple(
    Spec(number, subject, action)
    for number in range(len(NUMBERS))
    for subject in range(len(SUBJECTS))
    for action in range(len(ACTIONS))
)
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
