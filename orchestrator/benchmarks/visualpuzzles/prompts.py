"""The prompts of VisualPuzzles; `prompts.toml` holds their texts, exact to the last blank."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
COT: str = _TEXTS["cot"]
DIRECT: str = _TEXTS["direct"]
STEPS: str = _TEXTS["steps"]
MARK = "STEP START"
"""Beginning of each step that `STEPS` asks for."""
STAGE_2: str = _TEXTS["stage_2"]
CATEGORIES = tuple[str, ...](_TEXTS["categories"])


def question_block(question: str, options: Sequence[str] | None) -> str:
    """Returns the question with its options; null options are drawn in the image."""
    if options:
        listed = "\n".join(f"({letter}) {option}" for letter, option in zip("ABCD", options, strict=False))
        return f"Question: {question.strip()}\nOptions:\n{listed}"
    return f"Question: {question.strip()}\nOptions: Choose from (A) (B) (C) (D) in the image."


def stage_1(block: str, category: str) -> str:
    """Returns the request for an auxiliary diagram."""
    # Not str.format: a question may hold braces.
    text: str = _TEXTS["categories"][category]["stage_1"]
    return text.replace("{question}", block)


def stage_2(block: str, category: str) -> str:
    """Returns the question to be answered from puzzle and diagram."""
    texts = _TEXTS["categories"][category]
    text = STAGE_2.replace("{category}", category).replace("{diagram}", texts["diagram"])
    return text.replace("{use}", texts["use"]).replace("{question}", block)
