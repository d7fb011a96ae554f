"""The parts of a question before any layout: option marks, in-context turns."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    """Appends the options to a question, `q Options: (A) o1; (B) o2.`; None leaves it bare.

    Raises:
        IndexError: There are more options than marks.
    """
    if options is None:
        return question
    listed = "; ".join(f"({marks[index]}) {option}" for index, option in enumerate(options))
    return f"{question} Options: {listed}{'.' if options else ''}"


@dataclass(frozen=True, slots=True)
class Context:
    """An in-context turn; its marks are always upper-case letters.

    Attributes:
        human: The question with its options.
        answer: The assistant's answer.
        prefixed: Whether the response prefix stands before the answer; the reference sometimes forgets it.
    """

    human: str
    answer: str
    prefixed: bool = True

    def turns(self, prefix: str | None, *, faithful: bool = True) -> list[Turn]:
        """Returns the two turns; unless `faithful`, the prefix is not forgotten."""
        answer = f"{prefix} {self.answer}" if prefix and (self.prefixed or not faithful) else self.answer
        return [{"from": "human", "value": self.human}, {"from": "assistant", "value": answer}]


CONTEXTS: Mapping[str, Context] = {
    name: Context(**context)
    for name, context in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items()
}
"""The in-context turns of `prompts.json`, by the name the table of datasets uses; their slips are the reference's."""
