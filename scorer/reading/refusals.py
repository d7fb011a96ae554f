"""Detects answers in which the model declines; a mere failure to answer is not a refusal."""

from __future__ import annotations

from collections.abc import Iterator

from scorer.reading.lexicon import Lexicon
from scorer.reading.prefilter import Prefilter

LEXICON = Lexicon("refusals")

_PREFILTER = Prefilter(lambda: [LEXICON.DECLINES])


def declines(text: str) -> bool:
    """Returns true if a clause of a text declines to answer.

    "I cannot tell from the image" is not a refusal, but an answer without content.
    """
    return next(clauses(text), None) is not None


def overrules(text: str, position: int) -> bool:
    """Returns true if a position in a text is part of a refusal, or of an offer of something else.

    "I can't identify the person, but the shirt is red" declines one thing and answers another.
    """
    declined = list(clauses(text))
    if any(start <= position < end for start, end in declined):
        return True
    ends = [match.end() for match in LEXICON.SENTENCES.finditer(text, 0, position)]
    return bool(declined and LEXICON.OFFERS.search(text[ends[-1] if ends else 0 : position]))


def only_declines(text: str) -> bool:
    """Returns true if a text holds nothing but a refusal, courtesies and offers."""
    rest, done = [], 0
    for start, end in clauses(text):
        rest.append(text[done:start])
        done = max(end, done)
    if not rest:
        return False
    rest.append(text[done:])
    return all(
        LEXICON.OFFERS.search(sentence) or not LEXICON.WORD.search(LEXICON.COURTESY.sub("", sentence.replace("’", "'")))
        for piece in rest
        for sentence in LEXICON.SENTENCES.split(piece)
    )


def clauses(text: str) -> Iterator[tuple[int, int]]:
    """Yields the spans of clauses that decline, within the first 4,000 code points."""
    head = text[:4000].replace("’", "'")
    if not _PREFILTER(head).may(LEXICON.DECLINES):
        return
    for match in LEXICON.DECLINES.finditer(head):
        stop = LEXICON.ENDS.search(text, match.end())
        end = stop.end() if stop else len(text)
        if not LEXICON.WANTING.search(text, match.start(), min(end, match.end() + 60)):
            yield match.start(), end
