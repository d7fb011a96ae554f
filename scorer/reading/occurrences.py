"""Assigns a stance to every group of mentions, from its sentence and the groups before it."""

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
"""Most groups that get a stance: the last `MOST`, and the first `MOST // 8` of the others."""


_BULLETS = " *-#>\"'(["


class Occurrence(NamedTuple):
    """A group of mentions and the stance of its sentence.

    Attributes:
        group: The group.
        stance: The stance of the sentence towards it.
        reason: The evidence for the stance.
        here: The text around it.
    """

    group: Group
    stance: Stance
    reason: str
    here: Context

    @property
    def marks(self) -> bool:
        """True for an item of a list of verdicts: a tick, or "B: plausible", without text before it."""
        return self.reason == Reason.MARKED or (self.reason == STATED and not self.here.clause.text.strip(_BULLETS))

    @property
    def depends(self) -> bool:
        """True if the final stance depends on the groups before it."""
        return self.stance in (LED, ALSO) or (self.stance == FIRM and len(self.group.values) > 1)


class Occurrences:
    """The stances of a text's sentences, computed on demand: the last statement often decides alone.

    Args:
        text: The folded text.
        mentions: All mentions in it, in order, without overlap.
        order: The labels in their order.
    """

    def __init__(self, text: str, mentions: Sequence[Mention], order: Sequence[str]) -> None:
        self._text = text
        phrases = groups(text, mentions, two=len(order) == 2)
        self._groups = phrases[:-MOST][: MOST // 8] + phrases[-MOST:]
        self._apart: dict[int, Occurrence] = {}

    def backward(self) -> Iterator[Occurrence]:
        """Yields all groups from the last to the first, with stances that ignore the other groups."""
        return map(self._judged_apart, range(len(self._groups) - 1, -1, -1))

    def all(self) -> list[Occurrence]:
        """Returns all groups in order, with their final stances."""
        occurrences: list[Occurrence] = []
        for index in range(len(self._groups)):
            apart = self._judged_apart(index)
            occurrences.append(self._closing(index, _after(self._text, apart, occurrences)) if apart.depends else apart)
        return occurrences

    def before(self, group: Group) -> Group | None:
        """Returns the group before another; None for the first."""
        index = self._groups.index(group)
        return self._groups[index - 1] if index else None

    def begins_line(self, occurrence: Occurrence) -> bool:
        """Returns true if a group may be an answer because it begins its line."""
        group, stance, _, here = occurrence
        return (
            len(group.values) == 1
            and stance not in (REJECTED, ASIDE)
            and bool(BEFORE.LINE_START.fullmatch(here.line_before))
            and (here.alone or _leads(self._text, group, here))
        )

    def _judged_apart(self, index: int) -> Occurrence:
        if index not in self._apart:
            group = self._groups[index]
            here = context(self._text, group)
            self._apart[index] = self._closing(index, Occurrence(group, *stance_of(self._text, group, here), here))
        return self._apart[index]

    def _closing(self, index: int, occurrence: Occurrence) -> Occurrence:
        """Marks the last group as stated if its sentence ends with it: "the lightest is C"."""
        mention = occurrence.group.mentions[0]
        named = not occurrence.group.plain or mention.first < mention.start
        last = occurrence.stance == NAMED and index == len(self._groups) - 1 and named
        closes = last and occurrence.group.mentions[0].kind == LABEL and self._ends_with(occurrence)
        return (
            occurrence._replace(stance=FIRM, reason=CONCLUDED)
            if closes or (last and self._sums_up(index, occurrence.here.lead.text))
            else occurrence
        )

    def _ends_with(self, occurrence: Occurrence) -> bool:
        """Returns true if "is" or the like leads to a label, after "finally" or at the end of the text."""
        if occurrence.here.lead.search(BEFORE.FINALLY):
            return True
        end = not self._text[occurrence.group.last :].strip(" .!)\"'*")
        return end and bool(BEFORE.LATELY.search(occurrence.here.lead.text))

    def _sums_up(self, index: int, lead: str) -> bool:
        """Returns true for a last sentence that concludes and ends with its only mention: "So it sank in 1912"."""
        group = self._groups[index]
        before = self._groups[index - 1].last if index else 0
        german = lead.strip().lower() == "also" and BEFORE.GERMAN.search(self._text)
        return bool(
            len(group.values) == 1
            and before <= group.first - len(lead)
            and (german or BEFORE.SUMS_UP.match(lead))
            and not self._text[group.last :].strip(" .!)\"'")
        )


def _after(text: str, apart: Occurrence, earlier: list[Occurrence]) -> Occurrence:
    """Returns the final stance of a group, which depends on the groups before it."""
    group, stance, reason, here = apart
    before = earlier[-1] if earlier else None
    if stance == LED:
        leads = _nothing_leads(group, here, earlier) and not BEFORE.ARTICLE.search(here.lead.text)
        stance = FIRM if leads else NAMED
    if stance == ALSO and reason == LIKEWISE and before and before.stance == REJECTED:
        stance = REJECTED  # "A is wrong, and so is B."
    several = stance == FIRM and len(group.values) > 1
    if several and before and before.stance == FIRM and text[before.group.last : group.first].strip() == ":":
        stance = NAMED  # "The odd one out is C: A, B and D are symmetric."
    return apart._replace(stance=stance)


def _nothing_leads(group: Group, here: Context, earlier: list[Occurrence]) -> bool:
    """Returns true if no earlier mention in the sentence leads to the group."""
    start = group.first - len(here.lead.text)
    for other, stance, _, _ in reversed(earlier[-8:]):
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
