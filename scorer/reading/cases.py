"""Tells whether an answer is one of several that hold side by side, each in a case of its own.

"If the arrow is read from the tail, the answer is B; if from the tip, the answer is D" states neither.
"""

from __future__ import annotations

import re

from scorer.reading.lexicon import BEFORE, Lexicon
from scorer.reading.mentions import Group
from scorer.reading.occurrences import Occurrence
from scorer.reading.stance import ASIDE, REJECTED

LEXICON = Lexicon("cases")
NEAR = 200
"""Code points between two answers that stand side by side, at most."""
_WORD = re.compile(r"[\u3040-\u9fff]|[^\W\d_\u3040-\u9fff]+")
_SHORT = 3
"""Words of a sentence that says no more than that something depends."""


def near(text: str, one: Group, other: Occurrence) -> bool:
    """Returns whether an answer may stand beside what is named before it: close, and no word turns to the answer.

    Whatever turns, the same word behind both may tell for what each holds.
    """
    if other.group.first - one.last > NEAR:
        return False
    return not LEXICON.TURN.search(text, one.last, other.group.first) or _holds(other) != ""


def beside(text: str, one: Occurrence, other: Occurrence, *, apart: bool) -> bool:
    """Returns whether the second of two answers that are `near` is no more stated than the first.

    They are alternatives, or announced in the same words, or the same word behind both tells for what each holds: "true
    for the first panel, but false for the second".

    Args:
        text: The folded text.
        one: The first of them.
        other: The second.
        apart: Whether they may stand in two sentences.
    """
    if one.stance in (REJECTED, ASIDE) or set(one.group.values) & set(other.group.values):
        return False
    if one.group.mentions[0].kind != other.group.mentions[0].kind:
        return False
    between = text[one.group.last : other.group.first]
    ends = LEXICON.ENDS.search(between)
    if ends and not apart:
        return False
    if not ends and _holds(one) == _holds(other) != "":
        return True
    if LEXICON.TURN.search(between):
        return False
    return LEXICON.OR.search(between) is not None or _parallel(one.here.lead.text, between, apart=ends is not None)


def _holds(answer: Occurrence) -> str:
    """Returns the word behind an answer that tells for what it holds; "" if there is none."""
    holds = LEXICON.HOLDS.match(answer.here.tail.text)
    return holds[1].lower() if holds else ""


def _parallel(lead: str, between: str, *, apart: bool) -> bool:
    """Whether what announces two answers, before the first and between them, is alike; in two sentences if `apart`."""
    if "\n" in between or LEXICON.TURN.search(lead):
        return False
    if LEXICON.CONDITION.search(between) and (LEXICON.CONDITION.search(lead) or LEXICON.OTHERWISE.search(between)):
        return True
    one, other = (_WORD.findall(said.lower()) for said in (lead, between))
    if not one or not other or one[-1] != other[-1]:
        return False
    return one == other if apart else one[0] == other[0] or one[-2:] == other[-2:] != one[-1:]


def holds_if(answer: Occurrence) -> bool:
    """Returns whether an answer holds under a condition alone: "Yes if the shadow counts"."""
    return LEXICON.HOLDS_IF.match(answer.here.tail.text) is not None


def depends(text: str, start: int) -> bool:
    """Returns whether an answer at a place is said to depend on something, in its sentence or in a short one before."""
    low = max(start - NEAR, 0)
    words = next(iter(LEXICON.DEPENDS.finditer(text, low, start)), None)
    if words is None or LEXICON.TURN.search(text, words.end(), start):
        return False
    stop = BEFORE.SENTENCE_END.search(text, words.end(), start)
    return stop is None or len(text[low : stop.end()].split()) <= _SHORT
