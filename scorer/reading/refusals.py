"""Tells a model that declines to answer from one that merely fails to."""

from __future__ import annotations

from collections.abc import Iterator

from scorer.reading.lexicon import Lexicon
from scorer.reading.prefilter import Prefilter

LEXICON = Lexicon("refusals")

_PREFILTER = Prefilter(lambda: [LEXICON.DECLINES])


def declines(text: str) -> bool:
    """Returns whether the words decline to answer, whatever else they say.

    "I cannot tell from the image" is no refusal: it is an answer without content.
    """
    return next(clauses(text), None) is not None


def overrules(text: str, place: int) -> bool:
    """Returns whether what a text names at a place is part of a refusal, or of what is offered instead.

    "I can't identify the person, but the shirt is red" declines one thing and answers another.
    """
    declined = list(clauses(text))
    if any(start <= place < end for start, end in declined):
        return True
    ends = [match.end() for match in LEXICON.SENTENCES.finditer(text, 0, place)]
    return bool(declined and LEXICON.OFFERS.search(text[ends[-1] if ends else 0 : place]))


def only_declines(text: str) -> bool:
    """Returns whether a text declines to answer, and says nothing else but courtesies and offers."""
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
    """Yields where each clause that declines begins and ends, of the first 4,000 code points."""
    head = text[:4000].replace("’", "'")
    if not _PREFILTER(head).may(LEXICON.DECLINES):
        return
    for match in LEXICON.DECLINES.finditer(head):
        stop = LEXICON.ENDS.search(text, match.end())
        end = stop.end() if stop else len(text)
        if not LEXICON.WANTING.search(text, match.start(), min(end, match.end() + 60)):
            yield match.start(), end
