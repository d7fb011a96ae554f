"""What is named in one breath: "B", "A or C", "(B) cotton"."""

from __future__ import annotations

from collections.abc import Sequence

from scorer.reading.lexicon import BEFORE
from scorer.reading.mentions import LABEL, TEXT, Mention


class Group:
    """Things named in one breath: one value, or several ("A and C").

    Attributes:
        mentions: Each name.
        values: What they stand for, each once.
        first: Where it begins.
        last: Where it ends.
    """

    __slots__ = ("first", "last", "mentions", "values")

    def __init__(self, mention: Mention) -> None:
        self.mentions = [mention]
        self.values = [mention.value]
        self.first = mention.first
        self.last = mention.last

    def add(self, mention: Mention) -> None:
        """Adds what is named next in the same breath."""
        self.mentions.append(mention)
        if mention.value not in self.values:
            self.values.append(mention.value)
        self.last = mention.last

    @property
    def plain(self) -> bool:
        """Whether all its names are plain."""
        return all(mention.plain for mention in self.mentions)

    @property
    def span(self) -> tuple[int, int]:
        """Where its first name stands."""
        return self.mentions[0].start, self.mentions[0].end

    @property
    def article(self) -> bool:
        """Whether it is a lower-case "a" and may be the article of something cut off."""
        mention = self.mentions[0]
        return (
            mention.plain
            and mention.kind == LABEL
            and (mention.value == "I" or (mention.lower and mention.value in "aA"))
        )


def groups(text: str, mentions: Sequence[Mention], *, two: bool = False) -> list[Group]:
    """Returns the mentions, those that are named in one breath together.

    With only `two` things to name, "not one, the other" is two breaths.
    """
    found: list[Group] = []
    for mention in mentions:
        if found and _joins(text, found[-1], mention, two):
            found[-1].add(mention)
        else:
            found.append(Group(mention))
    return found


def _joins(text: str, group: Group, mention: Mention, two: bool) -> bool:
    """Whether something is named in one breath with what is named before it."""
    between = text[group.last : mention.first] if mention.first >= group.last else ""
    if len(between) >= 40 or "\n" in between:
        return False
    before = group.mentions[-1]
    own = before.kind == LABEL and mention.kind == TEXT
    if len(group.values) > 1 and mention.value in group.values and not (own and before.value == mention.value):
        return False
    sign = between.strip()
    if two and sign == "," and BEFORE.NOT.search(text, max(group.first - 20, 0), group.first):
        return False
    if sign in (",", ", the", ", a", ", an") and _corrects(text, group, mention):
        return False
    return bool((own and BEFORE.OWN_TEXT.fullmatch(between)) or BEFORE.JOIN.fullmatch(between))


def _corrects(text: str, group: Group, mention: Mention) -> bool:
    """Whether one thing is denied and the other put in its place: "Not A, D."."""
    ends = BEFORE.STOPS.match(text, mention.last)
    return bool(ends and len(group.values) == 1 and BEFORE.NOT.search(text, max(group.first - 20, 0), group.first))
