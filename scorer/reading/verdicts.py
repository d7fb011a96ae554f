"""Reads a list of verdicts on all options of which exactly one is right: "1 no, 2 no, 3 yes, 4 no"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from lyncean.vocabulary.reasons import Reason
from scorer.reading.lexicon import Lexicon
from scorer.reading.resolve import Reading

LEXICON = Lexicon("verdicts")
_LONGEST = 200
"""Most code points of the verdict on an option."""


def read(text: str, order: Sequence[str]) -> Reading | None:
    """Returns the only option that a list of all options calls right without denying anything about it.

    Args:
        text: The folded text.
        order: The labels in their order.
    """
    items = _items(text, order) if len(order) > 2 else []
    if not items:
        return None
    ends = [*(item.start() for item in items[1:]), len(text)]
    verdicts = [text[item.end() : end] for item, end in zip(items, ends, strict=True)]
    if any(len(verdict) > _LONGEST or not any(map(str.isalnum, verdict)) for verdict in verdicts):
        return None
    praised = [index for index, verdict in enumerate(verdicts) if LEXICON.RIGHT.search(verdict)]
    kept = [index for index, verdict in enumerate(verdicts) if not LEXICON.WRONG.search(verdict)]
    one = praised[0] if len(praised) == 1 and praised[0] in kept else None
    return (
        None
        if one is None or 2 * len(kept) > len(items) + 1
        else Reading(order[one], Reason.MARKED, items[one].span("label"))
    )


def _items(text: str, order: Sequence[str]) -> list[re.Match[str]]:
    """Returns the heads of a list's items, if it holds all options once and in their order; else []."""
    heads = list(_heads(tuple(order)).finditer(text))
    return heads if [head["label"] for head in heads] == [*order] else []


@lru_cache(maxsize=256)
def _heads(order: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern of the head of an item."""
    labels = "|".join(map(re.escape, order))
    return re.compile(LEXICON.source("HEAD", LABELS=labels))
