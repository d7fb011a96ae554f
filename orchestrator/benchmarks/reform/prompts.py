"""What a question looks like before any layout: option marks, in-context turns."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Turn = Mapping[str, str]
"""A turn of a conversation as the reference writes it: {"from": "human" | "assistant", "value": text}."""

ALPHABETS: Mapping[str, str] = {
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "number": string.digits[1:],
}


def marks_of(kind: str, rng: random.Random) -> str:
    """Returns the alphabet of one rendered question; "random" draws one of the three."""
    return ALPHABETS[rng.choice(list(ALPHABETS)) if kind == "random" else kind]


def with_options(question: str, options: Sequence[str] | None, marks: str) -> str:
    """Returns a question with its options behind it, `q Options: (A) o1; (B) o2.`; None leaves it bare.

    Raises:
        IndexError: There are more options than marks.
    """
    if options is None:
        return question
    listed = "; ".join(f"({marks[place]}) {option}" for place, option in enumerate(options))
    return f"{question} Options: {listed}{'.' if options else ''}"


@dataclass(frozen=True, slots=True)
class Context:
    """An in-context turn: its marks are upper-case letters whatever the run's are.

    Attributes:
        human: The question with its options.
        answer: What the assistant said.
        prefixed: Whether the response prefix stands before the answer; the reference forgets it in places.
    """

    human: str
    answer: str
    prefixed: bool = True

    def turns(self, prefix: str | None, *, faithful: bool = True) -> list[Turn]:
        """Returns the two turns; unless `faithful`, the prefix is not forgotten."""
        answer = f"{prefix} {self.answer}" if prefix and (self.prefixed or not faithful) else self.answer
        return [{"from": "human", "value": self.human}, {"from": "assistant", "value": answer}]


def _context(stem: str, options: Sequence[str], answer: str, *, prefixed: bool = True) -> Context:
    return Context(with_options(stem, options, ALPHABETS["upper"]), f"(A) {answer}", prefixed)


def _shape(count: int, *, listed: str = ".", answered: str = ";") -> Context:
    made = _context(_SHAPE, _SHAPES[:count], "rectangle")
    return Context(made.human[:-1] + listed, made.answer + answered)


_SEE = "can you see the image?"
_SHAPE = "What is the shape of this image?"
_SHAPES = ("rectangle", "circle", "triangle", "hexagon", "pentagon", "heptagon", "octagon")
_MAYBE_LAST = ("yes", "no", "not sure", "maybe")
_UNSURE_LAST = ("yes", "no", "maybe", "not sure")
_RATIONALE = "There is an image as input which is successfully loaded"
_DENIALS = ("There is no image", "The image is masked", "The image failed to load")
_CLAIM = "What is the truthfulness of this claim? Claim: You can see the image. Text evidence: There is an image."

CONTEXTS: Mapping[str, Context] = {
    "V1": _context(_SEE, _UNSURE_LAST, "yes"),
    "V1n": _context(_SEE, _UNSURE_LAST, "yes", prefixed=False),
    "V1c": _context(_SEE, _UNSURE_LAST, "yes"),
    "V1c capitalised": _context(_SEE.capitalize(), [option.capitalize() for option in _UNSURE_LAST], "Yes"),
    "V2-2": _shape(2),
    "V2-3": _shape(3, answered="."),
    "V2-4": _shape(4),
    "V2-4b": _shape(4, answered="."),
    "V2-4c": _shape(4, listed=";"),
    "V2-7": _shape(7),
    "V3": _context(_SEE, _MAYBE_LAST, "yes"),
    "V4": _context("Can you see the image? Context: There is an image.", _MAYBE_LAST, "yes"),
    "V5": _context(f"{_SEE} Rationale: {_RATIONALE}.", _MAYBE_LAST, "yes"),
    "V6": _context(f"{_SEE} Answer: yes", (_RATIONALE, *_DENIALS), _RATIONALE),
    "V7": _context(_SEE, ("yes", "no"), "yes"),
    # The missing semicolon is the reference's.
    "V8": Context(f"{_CLAIM} Options: (A) supported; (B) refuted (C) not enough information.", "(A) supported"),
}
"""The in-context turns, by the name the table uses."""
