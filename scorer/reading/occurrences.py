"""Judges everything that a text names, each in its sentence and in view of what is named before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lyncean.vocabulary.reasons import Reason
from scorer.reading.context import Context, context
from scorer.reading.lexicon import AFTER, BEFORE
from scorer.reading.mentions import LABEL, TEXT, Group, Mention, groups
from scorer.reading.stance import (
    ALSO,
    ASIDE,
    CONCLUDED,
    FIRM,
    LED,
    LIKEWISE,
    NAMED,
    REJECTED,
    STATED,
    Stance,
    stance_of,
)

MOST = 1600
"""Things named that are looked at: the last so many, and an eighth of that at the beginning."""


_BULLETS = " *-#>\"'(["


class Occurrence(NamedTuple):
    """Things named in one breath, and what their sentence does with them.

    Attributes:
        group: What is named.
        stance: What the sentence does with it.
        reason: How that was said.
        here: The words around it.
    """

    group: Group
    stance: Stance
    reason: str
    here: Context

    @property
    def marks(self) -> bool:
        """Whether it is one of a list of verdicts: a tick, or "B: plausible", with no words before it."""
        return self.reason == Reason.MARKED or (self.reason == STATED and not self.here.clause.text.strip(_BULLETS))

    @property
    def depends(self) -> bool:
        """Whether what becomes of the group depends on those before it."""
        return self.stance in (LED, ALSO) or (self.stance == FIRM and len(self.group.values) > 1)


class Occurrences:
    """What the sentences of a text do with what they name, each looked at when it is asked for.

    Args:
        text: The folded text.
        mentions: Everything it names, in order, without overlap.
        order: The labels in their order.
    """

    def __init__(self, text: str, mentions: Sequence[Mention], order: Sequence[str]) -> None:
        self._text = text
        found = groups(text, mentions, two=len(order) == 2)
        self._groups = found[:-MOST][: MOST // 8] + found[-MOST:]
        self._apart: dict[int, Occurrence] = {}

    def backward(self) -> Iterator[Occurrence]:
        """Yields every group from the last on, judged apart from the others."""
        return map(self._judged_apart, range(len(self._groups) - 1, -1, -1))

    def all(self) -> list[Occurrence]:
        """Returns every group in order, judged in view of those before it."""
        judged: list[Occurrence] = []
        for place in range(len(self._groups)):
            apart = self._judged_apart(place)
            judged.append(self._closing(place, _after(self._text, apart, judged)) if apart.depends else apart)
        return judged

    def before(self, group: Group) -> Group | None:
        """Returns the group before another; None if it is the first."""
        place = self._groups.index(group)
        return self._groups[place - 1] if place else None

    def begins_line(self, judged: Occurrence) -> bool:
        """Returns whether a group may be an answer by beginning its line."""
        group, stance, _, here = judged
        return (
            len(group.values) == 1
            and stance not in (REJECTED, ASIDE)
            and bool(BEFORE.LINE_START.fullmatch(here.line_before))
            and (here.alone or _leads(self._text, group, here))
        )

    def _judged_apart(self, place: int) -> Occurrence:
        if place not in self._apart:
            group = self._groups[place]
            here = context(self._text, group)
            self._apart[place] = self._closing(place, Occurrence(group, *stance_of(self._text, group, here), here))
        return self._apart[place]

    def _closing(self, place: int, judged: Occurrence) -> Occurrence:
        """Returns the last group as stated where it is a label that its sentence arrives at: "the lightest is C"."""
        mention = judged.group.mentions[0]
        named = not judged.group.plain or mention.first < mention.start
        last = judged.stance == NAMED and place == len(self._groups) - 1 and named
        closes = last and judged.group.mentions[0].kind == LABEL and self._ends_with(judged)
        return (
            judged._replace(stance=FIRM, reason=CONCLUDED)
            if closes or (last and self._sums_up(place, judged.here.lead.text))
            else judged
        )

    def _ends_with(self, judged: Occurrence) -> bool:
        """Whether a sentence arrives at a label by "is": the first clause, or the last one, at the end of the text."""
        if judged.here.lead.search(BEFORE.FINALLY):
            return True
        end = not self._text[judged.group.last :].strip(" .!)\"'*")
        return end and bool(BEFORE.LATELY.search(judged.here.lead.text))

    def _sums_up(self, place: int, lead: str) -> bool:
        """Whether a sentence that concludes names one thing, at its end and that of the text: "So it sank in 1912"."""
        group = self._groups[place]
        before = self._groups[place - 1].last if place else 0
        german = lead.strip().lower() == "also" and BEFORE.GERMAN.search(self._text)
        return bool(
            len(group.values) == 1
            and before <= group.first - len(lead)
            and (german or BEFORE.SUMS_UP.match(lead))
            and not self._text[group.last :].strip(" .!)\"'")
        )


def _after(text: str, apart: Occurrence, judged: list[Occurrence]) -> Occurrence:
    """Returns a group judged in view of those before it."""
    group, stance, reason, here = apart
    before = judged[-1] if judged else None
    if stance == LED:
        leads = _nothing_leads(group, here, judged) and not BEFORE.ARTICLE.search(here.lead.text)
        stance = FIRM if leads else NAMED
    if stance == ALSO and reason == LIKEWISE and before and before.stance == REJECTED:
        stance = REJECTED  # "A is wrong, and so is B."
    several = stance == FIRM and len(group.values) > 1
    if several and before and before.stance == FIRM and text[before.group.last : group.first].strip() == ":":
        stance = NAMED  # "The odd one out is C: A, B and D are symmetric."
    return apart._replace(stance=stance)


def _nothing_leads(group: Group, here: Context, judged: list[Occurrence]) -> bool:
    """Whether nothing named before in the sentence is what leads to the group."""
    start = group.first - len(here.lead.text)
    for other, stance, _, _ in reversed(judged[-8:]):
        if other.first < start:
            return True
        number = other.mentions[0].plain and other.values[0].isdigit()
        if stance != REJECTED and other.values != group.values and not number:
            return False
    return True


def _leads(text: str, group: Group, here: Context) -> bool:
    if here.line_after.text.startswith(")") and AFTER.SUBJECT.match(here.line_after.text[1:]):
        return False  # "Option C (anger) would require a frown"
    if group.mentions[0].kind == TEXT and len(group.mentions) > 1 and here.line_after.match(AFTER.SUBJECT):
        return False  # "The woman (B) is to the left"
    if BEFORE.SCORED.match(here.line_after.text):
        return False  # "Red: 60%, blue: 40%"
    # "(B) The glove is woven"
    return bool(BEFORE.FOLLOWED.match(here.line_after.text)) or text[group.last - 1] in ")]"
