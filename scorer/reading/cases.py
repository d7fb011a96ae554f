"""Detects answers that hold only in a case, or beside others for other cases.

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
"""Most code points between two answers of different cases."""
_WORD = re.compile(r"[\u3040-\u9fff]|[^\W\d_\u3040-\u9fff]+")
_SHORT = 3
"""Most words of a sentence like "It depends."."""


def near(text: str, one: Group, other: Occurrence) -> bool:
    """Returns true if an answer may be an alternative to the group before it: close, without a turn ("but") between.

    A turn does not matter if a word after the answer names its case.
    """
    if other.group.first - one.last > NEAR:
        return False
    return not LEXICON.TURN.search(text, one.last, other.group.first) or _holds(other) != ""


def beside(text: str, one: Occurrence, other: Occurrence, *, apart: bool) -> bool:
    """Returns true if the second of two answers that are `near` is stated no more firmly than the first.

    They are alternatives, or have the same announcement, or the same word after both names their cases: "true for the
    first panel, but false for the second".

    Args:
        text: The folded text.
        one: The first answer.
        other: The second answer.
        apart: Whether they may be in two sentences.
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
    """Returns the word after an answer that introduces its case; "" if there is none."""
    holds = LEXICON.HOLDS.match(answer.here.tail.text)
    return holds[1].lower() if holds else ""


def _parallel(lead: str, between: str, *, apart: bool) -> bool:
    """Returns true if two answers have similar announcements: the lead of the first and the text between them."""
    if "\n" in between or LEXICON.TURN.search(lead):
        return False
    if LEXICON.CONDITION.search(between) and (LEXICON.CONDITION.search(lead) or LEXICON.OTHERWISE.search(between)):
        return True
    one, other = (_WORD.findall(announcement.lower()) for announcement in (lead, between))
    if not one or not other or one[-1] != other[-1]:
        return False
    return one == other if apart else one[0] == other[0] or one[-2:] == other[-2:] != one[-1:]


def holds_if(answer: Occurrence) -> bool:
    """Returns true if an answer holds only under a condition: "Yes if the shadow counts"."""
    return LEXICON.HOLDS_IF.match(answer.here.tail.text) is not None


def depends(text: str, start: int) -> bool:
    """Returns true if the sentence of an answer, or a short one before it, states that the answer depends."""
    low = max(start - NEAR, 0)
    match = next(iter(LEXICON.DEPENDS.finditer(text, low, start)), None)
    if match is None or LEXICON.TURN.search(text, match.end(), start):
        return False
    stop = BEFORE.SENTENCE_END.search(text, match.end(), start)
    return stop is None or len(text[low : stop.end()].split()) <= _SHORT
