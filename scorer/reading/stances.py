"""Judges everything that a text names, each in its own sentence."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scorer.reading.context import LEAD, TAIL, Context, context
from scorer.reading.lexicon import AFTER, BEFORE
from scorer.reading.mention_groups import Group, groups
from scorer.reading.mentions import LABEL, TEXT, Mention
from scorer.reading.stance import ALSO, ASIDE, FIRM, LED, NAMED, REJECTED, classify

MOST = 1600
"""Things named that are looked at: the last so many, and an eighth of that at the beginning."""


class Judged(NamedTuple):
    """Things named in one breath, and what their sentence does with them.

    Attributes:
        group: What is named.
        what: What becomes of it: FIRM, NAMED, REJECTED...
        reason: How that was said.
        here: The words around it.
    """

    group: Group
    what: str
    reason: str
    here: Context


class Judging:
    """What the sentences of a text do with what they name, each looked at when it is asked for.

    Args:
        text: The folded text.
        mentions: Everything it names, in order, without overlap.
        order: The labels in their order, by which a list of the options is recognized.
    """

    def __init__(self, text: str, mentions: Sequence[Mention], order: Sequence[str]) -> None:
        self._text = text
        self._following = dict(itertools.pairwise(order))
        found = groups(text, mentions, two=len(order) == 2)
        self._groups = found if len(found) <= MOST else found[:-MOST][: MOST // 8] + found[-MOST:]
        self._apart: list[Judged | None] = [None] * len(self._groups)
        self._known: dict[tuple[str, str, str, int], tuple[str, str, Context]] = {}

    def backward(self) -> Iterator[Judged]:
        """Yields every group from the last on, judged apart from the others."""
        return map(self._judged_apart, range(len(self._groups) - 1, -1, -1))

    def all(self) -> list[Judged]:
        """Returns every group in order, judged in view of those before it."""
        judged: list[Judged] = []
        for place in range(len(self._groups)):
            apart = self._judged_apart(place)
            judged.append(self._closing(place, _after(self._text, apart, judged)) if depends(apart) else apart)
        return judged

    def begins_line(self, judged: Judged) -> bool:
        """Returns whether a group may be an answer by beginning its line."""
        group, what, _, here = judged
        return (
            len(group.values) == 1
            and what not in (REJECTED, ASIDE)
            and bool(BEFORE.LINE_START.fullmatch(here.line_before))
            and (alone(here) or _leads(self._text, group, here, self._following.get(group.values[0], "")))
        )

    def _judged_apart(self, place: int) -> Judged:
        judged = self._apart[place]
        if judged is None:
            group = self._groups[place]
            judged = self._apart[place] = self._closing(place, Judged(group, *self._classified(group)))
        return judged

    def _classified(self, group: Group) -> tuple[str, str, Context]:
        """Returns what a group's sentence does with it, how, and the words around it; the same words are read once."""
        before = self._text[max(group.first - LEAD, 0) : group.first]
        behind = self._text[group.last : group.last + TAIL]
        said = before, self._text[group.first : group.last], behind, sum([name.plain for name in group.mentions])
        if said not in self._known:
            here = context(self._text, group)
            self._known[said] = (*classify(self._text, group, here), here)
        return self._known[said]

    def _closing(self, place: int, judged: Judged) -> Judged:
        """Returns the last group as stated where it is a label that its sentence arrives at: "the lightest is C"."""
        mention = judged.group.mentions[0]
        closes = (
            judged.what == NAMED
            and place == len(self._groups) - 1
            and mention.kind == LABEL
            and not mention.plain
            and judged.here.lead.search(BEFORE.FINALLY)
        )
        return judged._replace(what=FIRM, reason="concluded") if closes else judged


def depends(judged: Judged) -> bool:
    """Returns whether what becomes of a group depends on those before it."""
    return judged.what in (LED, ALSO) or (judged.what == FIRM and len(judged.group.values) > 1)


def alone(here: Context) -> bool:
    """Returns whether nothing but signs stands beside what is named on its line."""
    return bool(BEFORE.LINE_START.fullmatch(here.line_before) and BEFORE.BLANK.fullmatch(here.line_after.text))


def _after(text: str, apart: Judged, judged: list[Judged]) -> Judged:
    """Returns a group judged in view of those before it."""
    group, what, reason, here = apart
    before = judged[-1] if judged else None
    if what == LED:
        what = FIRM if _nothing_leads(group, here, judged) and not BEFORE.ARTICLE.search(here.lead.text) else NAMED
    if what == ALSO and reason == "likewise" and before and before.what == REJECTED:
        what = REJECTED  # "A is wrong, and so is B."
    several = what == FIRM and len(group.values) > 1
    if several and before and before.what == FIRM and text[before.group.last : group.first].strip() == ":":
        what = NAMED  # "The odd one out is C: A, B and D are symmetric."
    return apart._replace(what=what)


def _nothing_leads(group: Group, here: Context, judged: list[Judged]) -> bool:
    """Whether nothing named before in the sentence is what leads to the group."""
    start = group.first - len(here.lead.text)
    for other, what, _, _ in reversed(judged[-8:]):
        if other.first < start:
            return True
        number = other.mentions[0].plain and other.values[0].isdigit()
        if what != REJECTED and other.values != group.values and not number:
            return False
    return True


def _leads(text: str, group: Group, here: Context, following: str) -> bool:
    if here.line_after.text.startswith(")") and AFTER.SUBJECT.match(here.line_after.text[1:]):
        return False  # "Option C (anger) would require a frown"
    if group.mentions[0].kind == TEXT and len(group.mentions) > 1 and here.line_after.match(AFTER.SUBJECT):
        return False  # "The woman (B) is to the left"
    if len(group.mentions) > 1 and BEFORE.EQUATES.search(text, group.mentions[0].last, group.mentions[1].first):
        return False  # "Option A is happiness."
    next_item = rf"[.;,] (?:[A-Za-z]{{1,12}} )?[\"'(]?{re.escape(following)}[\"']?[):]"
    if following and re.search(next_item, here.line_after.text):
        return False  # "Option A: 3 dots. Option B: 4 dots."
    if BEFORE.SCORED.match(here.line_after.text):
        return False  # "Red: 60%, blue: 40%"
    if BEFORE.FOLLOWED.match(here.line_after.text):
        return not BEFORE.LISTED.match(here.line_after.text)
    # "(B) The glove is woven" answers; "A) shiny. B) soft" lists.
    return text[group.last - 1] in ")]" and not BEFORE.NEXT_ITEM.search(here.line_after.text)
