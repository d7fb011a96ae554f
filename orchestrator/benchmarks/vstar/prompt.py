"""The text of a V*-Bench question: its options, our prompt and the reference's, and the settings that choose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.benchmarks.base import LetterSettings, setting

INSTRUCTION = "Answer with the option's letter from the given choices directly."
LETTERS = "ABCD"

# An option as the reference finds it: it ends where the next one begins and holds no parentheses.
_REFERENCE_OPTION = re.compile(r"\(([A-D])\)\s*([^()]+?)(?=\([A-D]\)|$)")


@dataclass(frozen=True, slots=True)
class VstarSettings(LetterSettings):
    """Settings for `--set`."""

    protocol: Literal["lmms-eval", "paper", "deepeyes"] = setting(
        "lmms-eval",
        "paper: with --method likelihood, options' texts after the question alone, mean over tokens; deepeyes: the "
        "question as DeepEyes' script words it, for --tools zoom --protocol deepeyes",
    )


def split_text(text: str) -> tuple[str, list[str]]:
    """Returns the question and its options, none if the text lists none; the instruction is left out."""
    text = text.strip().removesuffix(INSTRUCTION).strip()
    places: list[int] = []
    for letter in LETTERS:
        at = text.find(f"({letter})", places[-1] if places else 0)
        if at < 0:
            break
        places.append(at)
    if not places:
        return text, []
    ends = [*places[1:], len(text)]
    return text[: places[0]].strip(), [text[at + 3 : end].strip() for at, end in zip(places, ends, strict=True)]


def listed(question: str, options: Sequence[str]) -> str:
    """Returns the question with its options, lettered by place."""
    return "\n".join([question, *(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))])


def deepeyes_prompt(question: str, options: Sequence[str]) -> str:
    """Returns the question as the evaluation of DeepEyes words it, before the text that each of its turns ends in."""
    listing = "".join(f"{letter}. {option}\n" for letter, option in zip(LETTERS, options, strict=False))
    return f"Question: {question}\nOptions: \n{listing}\n"


def reference_prompt(text: str) -> str:
    """Returns the prompt as the reference makes it."""
    options = [match[2].strip() for match in _REFERENCE_OPTION.finditer(text)]
    question = listed(text.split("(A)")[0].strip(), options) if options else text
    return f"{question}\n{INSTRUCTION}"
