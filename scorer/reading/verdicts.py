"""Reads a list of all options of which one alone is judged right: "1 no, 2 no, 3 yes, 4 no"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from lyncean.vocabulary.reasons import Reason
from scorer.reading.lexicon import Lexicon
from scorer.reading.resolve import Reading

LEXICON = Lexicon("verdicts")
_LONGEST = 200
"""Code points of what a list says of an option, at most."""


def read(text: str, order: Sequence[str]) -> Reading | None:
    """Returns the one option that a list of all options calls right and of which it denies nothing.

    Args:
        text: The folded text.
        order: The labels in their order.
    """
    items = _items(text, order) if len(order) > 2 else []
    if not items:
        return None
    ends = [*(item.start() for item in items[1:]), len(text)]
    said = [text[item.end() : end] for item, end in zip(items, ends, strict=True)]
    if any(len(words) > _LONGEST or not any(map(str.isalnum, words)) for words in said):
        return None
    praised = [place for place, words in enumerate(said) if LEXICON.RIGHT.search(words)]
    kept = [place for place, words in enumerate(said) if not LEXICON.WRONG.search(words)]
    one = praised[0] if len(praised) == 1 and praised[0] in kept else None
    return (
        None
        if one is None or 2 * len(kept) > len(items) + 1
        else Reading(order[one], Reason.MARKED, items[one].span("label"))
    )


def _items(text: str, order: Sequence[str]) -> list[re.Match[str]]:
    """Returns where a list of all options, each once and in their order, begins its items; nothing if there is none."""
    heads = list(_heads(tuple(order)).finditer(text))
    return heads if [head["label"] for head in heads] == [*order] else []


@lru_cache(maxsize=256)
def _heads(order: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern of how an item begins."""
    labels = "|".join(map(re.escape, order))
    return re.compile(LEXICON.source("HEAD", LABELS=labels))
