"""Finds where a text says yes or no."""

from __future__ import annotations

from scorer.reading.mentions import LEXICON, TEXT, Mention


def yes_no(text: str, yes: str, no: str) -> list[Mention]:
    """Returns every place where a folded text says yes or no, with the label that stands for it."""
    found = []
    for match in LEXICON.YES_NO.finditer(text):
        value = yes if match["yes"] or match["si"] else no
        found.append(Mention(match.start(), match.end(), value, TEXT, match.start(), match.end()))
    return found
