"""What is named in one breath: "B", "A or C", "(B) cotton"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scorer.reading import cues
from scorer.reading.mentions import LABEL, TEXT, Mention


@dataclass(slots=True)
class Group:
    """Things named in one breath: one value, or several ("A and C")."""

    mentions: list[Mention]
    values: list[str] = field(default_factory=list)

    @property
    def first(self) -> int:
        """Where it begins."""
        return self.mentions[0].first

    @property
    def last(self) -> int:
        """Where it ends."""
        return self.mentions[-1].last

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
        if found:
            group = found[-1]
            between = text[group.last : mention.first] if mention.first >= group.last else ""
            same_line = len(between) < 40 and "\n" not in between
            own = group.mentions[-1].kind == LABEL and mention.kind == TEXT
            words = own and group.mentions[-1].value == mention.value
            if mention.value in group.values and len(group.values) > 1 and not words:
                same_line = False
            if two and between.strip() == "," and cues.NOT.search(text, max(group.first - 20, 0), group.first):
                same_line = False
            if between.strip() in (",", ", the", ", a", ", an") and _corrects(text, group, mention):
                same_line = False
            if same_line and ((own and cues.OWN_TEXT.fullmatch(between)) or cues.JOIN.fullmatch(between)):
                group.mentions.append(mention)
                if mention.value not in group.values:
                    group.values.append(mention.value)
                continue
        found.append(Group([mention], [mention.value]))
    return found


def _corrects(text: str, group: Group, mention: Mention) -> bool:
    """Whether one thing is denied and the other put in its place: "Not A, D."."""
    ends = cues.STOPS.match(text, mention.last)
    return bool(ends and len(group.values) == 1 and cues.NOT.search(text, max(group.first - 20, 0), group.first))
