"""Finds what a text enumerates: of the items of a list none is stated more than another."""

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


def listed(text: str, judged: Sequence[Occurrence], order: Sequence[str]) -> set[int]:
    """Returns where the items of a list begin.

    Two or more options in their order, with words behind each and the same words before each: "Option A shows a circle.
    Option B shows a square." Sums of which none is part of the next: "Row 1 sums to 12. Row 2 sums to 15."
    """
    heads = [each for each in judged if each.stance in (NAMED, LED) and not each.here.alone]
    sums = [each for each in judged if each.stance == FIRM and each.reason == SUM]
    follow = set(itertools.pairwise(order))
    pairs = [
        *(pair for pair in itertools.pairwise(heads) if (_value(pair[0]), _value(pair[1])) in follow),
        *(
            pair
            for pair in itertools.pairwise(sums)
            if _value(pair[0]) != _value(pair[1]) and not _goes_on(text, *pair)
        ),
    ]
    items = {each.group.first for pair in pairs if _alike(text, *pair) for each in pair}
    announced = next((each for each in judged if each.stance == FIRM and each.group.values == [order[0]]), None)
    labels = [_value(each) for each in heads if each.group.mentions[0].kind == LABEL]
    if announced and len(order) > 2 and labels == [*order[1:]]:
        # "Options: A. red, B. blue, C. green"
        items |= {announced.group.first} if _LETTER.search(text, announced.group.last, heads[0].group.first) else set()
    return items


def next_item(text: str, group: Group, judged: Sequence[Occurrence], order: Sequence[str]) -> bool:
    """Returns whether a group begins the first item of a list, or the one behind that of the label before it.

    "- B: too short, - C: fits" has items, and so has a text that ends with "A: the line".
    """
    place = next(index for index, each in enumerate(judged) if each.group is group)
    own = judged[place]
    if own.here.alone:
        return False
    heads = [each for each in judged[:place] if BEFORE.LINE_START.fullmatch(each.here.line_before)]
    if heads and (_value(heads[-1]), _value(own)) in set(itertools.pairwise(order)):
        return _alike(text, heads[-1], own)
    return _value(own) == order[0] and bool(text[: group.first].strip(" \"'(["))


def _value(judged: Occurrence) -> str:
    return judged.group.values[0]


def _goes_on(text: str, one: Occurrence, other: Occurrence) -> bool:
    """Whether a sum is part of the next: "3 + 9 = 12, 12 + 6 = 18"."""
    return text[slice(*one.group.span)] in other.here.clause.text


def _alike(text: str, one: Occurrence, other: Occurrence) -> bool:
    """Whether the same words stand before both in their clauses."""
    return _frame(text, one) == _frame(text, other)


def _frame(text: str, judged: Occurrence) -> tuple[str, str]:
    mention = judged.group.mentions[0]
    words = _NO_LETTERS.sub(" ", judged.here.clause.text + text[judged.group.first : mention.start]).lower()
    return mention.kind, words.removeprefix(" and").strip()
