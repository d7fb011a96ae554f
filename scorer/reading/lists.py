"""Finds lists of options in a text: no item of a list is stated more firmly than another."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from scorer.reading.lexicon import BEFORE
from scorer.reading.mentions import LABEL, Group
from scorer.reading.occurrences import Occurrence
from scorer.reading.stance import FIRM, LED, NAMED, SUM

_NO_LETTERS = re.compile(r"[\W\d_]+")
_LETTER = re.compile(r"[^\W\d_]")


def listed(text: str, occurrences: Sequence[Occurrence], order: Sequence[str]) -> set[int]:
    """Returns the starts of list items.

    A list has two or more options in their order, with text after and the same words before each of them: "Option A
    shows a circle. Option B shows a square." Or sums that are not part of the next: "Row 1 sums to 12. Row 2 sums to
    15."
    """
    heads = [
        occurrence for occurrence in occurrences if occurrence.stance in (NAMED, LED) and not occurrence.here.alone
    ]
    sums = [occurrence for occurrence in occurrences if occurrence.stance == FIRM and occurrence.reason == SUM]
    follow = set(itertools.pairwise(order))
    pairs = [
        *(pair for pair in itertools.pairwise(heads) if (_value(pair[0]), _value(pair[1])) in follow),
        *(
            pair
            for pair in itertools.pairwise(sums)
            if _value(pair[0]) != _value(pair[1]) and not _goes_on(text, *pair)
        ),
    ]
    items = {occurrence.group.first for pair in pairs if _alike(text, *pair) for occurrence in pair}
    announced = next(
        (
            occurrence
            for occurrence in occurrences
            if occurrence.stance == FIRM and occurrence.group.values == [order[0]]
        ),
        None,
    )
    labels = [_value(occurrence) for occurrence in heads if occurrence.group.mentions[0].kind == LABEL]
    if announced and len(order) > 2 and labels == [*order[1:]]:
        # "Options: A. red, B. blue, C. green"
        items |= {announced.group.first} if _LETTER.search(text, announced.group.last, heads[0].group.first) else set()
    return items


def next_item(text: str, group: Group, occurrences: Sequence[Occurrence], order: Sequence[str]) -> bool:
    """Returns true if a group begins the first item of a list, or the item after that of the preceding label.

    "- B: too short, - C: fits" has items, and so has a text that ends with "A: the line".
    """
    index = next(index for index, occurrence in enumerate(occurrences) if occurrence.group is group)
    item = occurrences[index]
    if item.here.alone:
        return False
    heads = [
        occurrence for occurrence in occurrences[:index] if BEFORE.LINE_START.fullmatch(occurrence.here.line_before)
    ]
    if heads and (_value(heads[-1]), _value(item)) in set(itertools.pairwise(order)):
        return _alike(text, heads[-1], item)
    return _value(item) == order[0] and bool(text[: group.first].strip(" \"'(["))


def _value(occurrence: Occurrence) -> str:
    return occurrence.group.values[0]


def _goes_on(text: str, one: Occurrence, other: Occurrence) -> bool:
    """Returns true if a sum is part of the next: "3 + 9 = 12, 12 + 6 = 18"."""
    return text[slice(*one.group.span)] in other.here.clause.text


def _alike(text: str, one: Occurrence, other: Occurrence) -> bool:
    """Returns true if the clauses of both have the same words before the mention."""
    return _frame(text, one) == _frame(text, other)


def _frame(text: str, occurrence: Occurrence) -> tuple[str, str]:
    mention = occurrence.group.mentions[0]
    lead = _NO_LETTERS.sub(" ", occurrence.here.clause.text + text[occurrence.group.first : mention.start]).lower()
    return mention.kind, lead.removeprefix(" and").strip()
