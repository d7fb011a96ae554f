"""Reads what an answer states about the things it names.

Everything named is looked at in its own sentence: is it stated as the answer, rejected,
supposed, or only mentioned? The last statement decides. Where nothing is stated, or several
answers are, nothing is read: a wrong reading is worse than none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scorer.reading import cues, whole
from scorer.reading.classify import ALSO, ASIDE, FIRM, LED, NAMED, REJECTED, SUPPOSED, WEAK, classify
from scorer.reading.context import Context, context
from scorer.reading.groups import Group, groups
from scorer.reading.mentions import LABEL, TEXT, Mention

MOST = 1600
"""Things named that are looked at: the last so many, and an eighth of that at the beginning."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read.

    Attributes:
        value: The value stated; "" where nothing was.
        reason: How it was read, or why nothing was.
        span: Where it stands in the folded text.
    """

    value: str
    reason: str
    span: tuple[int, int] = (0, 0)


def _leads(text: str, group: Group, here: Context, following: str) -> bool:
    if here.line_after.text.startswith(")") and cues.SUBJECT.match(here.line_after.text[1:]):
        return False  # "Option C (anger) would require a frown"
    if group.mentions[0].kind == TEXT and len(group.mentions) > 1 and here.line_after.match(cues.SUBJECT):
        return False  # "The woman (B) is to the left"
    if len(group.mentions) > 1 and cues.EQUATES.search(text, group.mentions[0].last, group.mentions[1].first):
        return False  # "Option A is happiness."
    if following and re.search(rf"[.;,] (?:[A-Za-z]{{1,12}} )?\(?{re.escape(following)}[):]", here.line_after.text):
        return False  # "Option A: 3 dots. Option B: 4 dots."
    if cues.FOLLOWED.match(here.line_after.text):
        return not cues.LISTED.match(here.line_after.text)
    # "(B) The glove is woven" answers; "A) shiny. B) soft" lists.
    return text[group.last - 1] in ")]" and not cues.NEXT_ITEM.search(here.line_after.text)


def _bare(here: Context) -> bool:
    return bool(cues.BEFORE.fullmatch(here.line_before) and cues.BLANK.fullmatch(here.line_after.text))


class _Judged(NamedTuple):
    """What became of the groups of a text.

    Attributes:
        groups: Each group, with what its sentence does with it.
        statements: Those that are stated: where they begin, and how they were stated.
        lines: Those that may be an answer by beginning a line, and whether nothing else stands there.
    """

    groups: list[tuple[Group, str]]
    statements: list[tuple[int, Group, str]]
    lines: list[tuple[Group, Context, bool]]


def _judge(text: str, mentions: Sequence[Mention], order: Sequence[str]) -> _Judged:
    judged: list[tuple[Group, str]] = []
    statements: list[tuple[int, Group, str]] = []
    lines: list[tuple[Group, Context, bool]] = []
    following = dict(itertools.pairwise(order))
    seen: dict[tuple[str, str, str, str, bool, str, int], tuple[str, str]] = {}
    all_groups = groups(text, mentions, two=len(order) == 2)
    for group in all_groups[:-MOST][: MOST // 8] + all_groups[-MOST:]:
        here = context(text, group)
        signature = (
            here.lead.text,
            here.tail.text,
            here.line_before,
            here.line_after.text,
            here.question,
            text[group.first : group.last],
            sum(m.plain for m in group.mentions),
        )
        status = seen.get(signature)
        if status is None:
            status = seen[signature] = classify(text, group, here)
        what, reason = status
        if what == LED:
            what = FIRM if _nothing_leads(group, here, judged) and not cues.ARTICLE.search(here.lead.text) else NAMED
        if what == ALSO and reason == "likewise" and judged and judged[-1][1] == REJECTED:
            what = REJECTED  # "A is wrong, and so is B."
        mixed = len(group.values) > 1
        if what == FIRM and mixed and judged and judged[-1][1] == FIRM:
            before = judged[-1][0]
            if text[before.last : group.first].strip() == ":":
                what = NAMED  # "The odd one out is C: A, B and D are symmetric."
        at_line_start = len(group.values) == 1 and bool(cues.BEFORE.fullmatch(here.line_before))
        if (
            at_line_start
            and what not in (REJECTED, ASIDE)
            and (_bare(here) or _leads(text, group, here, following.get(group.values[0], "")))
        ):
            lines.append((group, here, _bare(here)))
        letter = group.mentions[0].kind == LABEL and not group.mentions[0].plain
        if letter and what == NAMED and here.lead.search(cues.FINALLY) and group is all_groups[-1]:
            what, reason = FIRM, "concluded"
        if what == FIRM and not (mixed and here.clause.search(cues.LOOKING)):
            statements.append((group.first, group, reason))
        judged.append((group, what))
    return _Judged(judged, statements, lines)


def read(
    text: str,
    mentions: Sequence[Mention],
    order: Sequence[str],
    lone: Callable[[str, list[tuple[Group, str]]], Reading | None] | None = None,
) -> Reading:
    """Returns the one value that the text states as its answer.

    Args:
        text: The folded text.
        mentions: Everything it names, in order, without overlap.
        order: The labels in their order, by which a list of the options is recognized.
        lone: Reads a text that states nothing from the groups and what became of each.
    """
    judged, statements, lines = _judge(text, mentions, order)
    statements += [
        (group.first, group, "bare")
        for group in _line_answers(text, lines, order, {v for _, g, _ in statements for v in g.values})
    ]
    if judged and (_ends_alone(text, judged) or _ends_behind_colon(text, judged)):
        statements.append((judged[-1][0].first, judged[-1][0], "bare"))
    statements.sort(key=lambda item: item[0])
    return _decide(text, statements, judged, mentions, lone)


def read_end(text: str, mentions: Sequence[Mention], order: Sequence[str], start: int) -> Reading | None:
    """Returns what is stated last, behind `start` in the end of a longer text; None where more of it must be read.

    What stands before changes nothing, except where it names a second answer.
    """
    judged, statements, lines = _judge(text, mentions, order)
    if lines or not statements or judged[-1][1] == NAMED:
        return None
    if statements[-1][0] < start or len(statements[-1][1].values) > 1:
        return None
    reading = _concluded(text, statements[-1][1], statements[-1][2], judged, mentions)
    return reading if reading.value else None


def _ends_alone(text: str, judged: list[tuple[Group, str]]) -> bool:
    """Whether the last sentence is a label and nothing else."""
    group, what = judged[-1]
    if what != NAMED or len(group.values) > 1 or group.mentions[0].kind != LABEL or group.mentions[0].plain:
        return False
    here = context(text, group)
    if here.lead.text.strip() or not here.line_before.strip() or not cues.STOPS.match(text, group.last):
        return False
    cut_off = not text[group.last :].strip()
    if cut_off and (group.values[0] == "A" or any(what == NAMED for _, what in judged[:-1])):
        return False
    before = judged[-2][0].last if len(judged) > 1 else 0
    return bool(text[before : group.first].strip(" .,;:)(\n"))


def _ends_behind_colon(text: str, judged: list[tuple[Group, str]]) -> bool:
    """Whether the last name is one to which a sentence leads: "the tears settle it: B."."""
    group, what = judged[-1]
    if what != NAMED or len(group.values) > 1:
        return False
    here = context(text, group)
    if group.mentions[0].plain and not cues.HAVING_LOOKED.match(here.lead.text):
        return False
    words = here.clause.text.split()
    if group.mentions[0].kind == TEXT:
        return bool(cues.QUESTIONED.search(here.lead.text) and cues.STOPS.match(text, group.last))
    if not here.lead.text.rstrip("( ").endswith(":") or not cues.STOPS.match(text, group.last):
        return False
    return len(words) >= (3 if group.mentions[0].plain else 4) and all(word.strip(",:;()").isalpha() for word in words)


def _nothing_leads(group: Group, here: Context, judged: list[tuple[Group, str]]) -> bool:
    """Whether nothing named before in the sentence is what leads to the group."""
    start = group.first - len(here.lead.text)
    for other, what in reversed(judged[-8:]):
        if other.first < start:
            return True
        number = other.mentions[0].plain and other.values[0].isdigit()
        if what != REJECTED and other.values != group.values and not number:
            return False
    return True


def _line_answers(
    text: str, lines: list[tuple[Group, Context, bool]], order: Sequence[str], stated: set[str]
) -> list[Group]:
    """Returns the groups that are an answer by standing alone on the first or the last line."""
    if not lines:
        return []
    index = {value: place for place, value in enumerate(order)}
    several = len({group.values[0] for group, _, _ in lines}) > 1
    answers = []
    group, _, bare = lines[0]
    first_line = bool(cues.BEFORE.fullmatch(text[: group.first]))
    follower = index[lines[1][0].values[0]] - index[group.values[0]] if len(lines) > 1 else 0
    enumerates = not bare and text[group.first : group.last + 2] == "1. "
    if first_line and (bare or not several) and follower != 1 and not enumerates:
        answers.append(group)
    group, here, bare = lines[-1]
    begins = group is lines[0][0] and not text[: group.first].strip()
    cut_off = not begins and bare and (":" in here.line_after.text or ".." in here.line_after.text)  # "Option B: ..."
    last_line = "\n" not in text[group.last :].strip()
    step = index[group.values[0]] - index[lines[-2][0].values[0]] if len(lines) > 1 else 0
    enumerates = not bare and text[group.first : group.last + 2] == "1. "
    if (
        last_line
        and (bare or not (several or stated - {group.values[0]}))
        and step != 1
        and group not in answers
        and not enumerates
        and not cut_off
    ):
        answers.append(group)
    return answers


def _abstentions(text: str, mentions: Sequence[Mention], start: int = 0) -> list[re.Match[str]]:
    """Returns where the text says that it has no answer, unless an option says so."""
    if not whole.seen(text).may(whole.ABSTAIN):
        return []
    options = [mention for mention in mentions if mention.kind == TEXT]
    return [
        match
        for match in whole.ABSTAIN.finditer(text, start)
        if not any(option.start < match.end() and match.start() < option.end for option in options)
    ]


def _concluded(
    text: str, group: Group, reason: str, judged: list[tuple[Group, str]], mentions: Sequence[Mention]
) -> Reading:
    """Returns the last statement, unless what follows takes it back or sets another beside it."""
    if text[group.last :].strip(" .!)*\n"):
        if whole.takes_back(text, group.last):
            return Reading("", "retracted")
        if (
            whole.seen(text).may(whole.RESUMED)
            and whole.RESUMED.search(text, group.last)
            and any(
                other.first > group.last
                and what not in (REJECTED, SUPPOSED, ASIDE)
                and other.values != group.values
                and other.mentions[0].kind == group.mentions[0].kind
                for other, what in judged
            )
        ):
            return Reading("", "conflict")
        for match in _abstentions(text, mentions, group.last):
            if not whole.UNSURE.fullmatch(match[0]) and whole.RESOLVES.search(
                text, max(group.last, match.start() - 60), match.start()
            ):
                return Reading("", "abstained")
    if len(group.values) > 1 or any(
        what == ALSO
        and other.values != group.values
        and (other.first > group.first or not cues.CONTRAST.search(text, other.last, group.first))
        for other, what in judged
    ):
        return Reading("", "conflict")
    return Reading(group.values[0], reason, group.span)


def _decide(
    text: str,
    statements: list[tuple[int, Group, str]],
    judged: list[tuple[Group, str]],
    mentions: Sequence[Mention],
    lone: Callable[[str, list[tuple[Group, str]]], Reading | None] | None,
) -> Reading:
    if statements:
        return _concluded(text, statements[-1][1], statements[-1][2], judged, mentions)
    abstained = _abstentions(text, mentions)
    weak = [group for group, what in judged if what == WEAK]
    if weak:
        named = {g.values[0] for g, what in judged if what in (NAMED, WEAK) and len(g.values) == 1}
        certain = {value for group in weak for value in group.values}
        closes = weak[-1] is judged[-1][0] and len(text) - weak[-1].last <= 200
        sentence = weak[-1].first - len(context(text, weak[-1]).lead.text)
        alone = closes and (len(judged) < 2 or judged[-2][0].last <= sentence)
        if len(certain) > 1 or (len(named) > 1 and len(text) <= 400 and not alone):
            return Reading("", "conflict")
        if not abstained or abstained[-1].end() < weak[-1].first:
            return Reading(weak[0].values[0], "likely", weak[0].span)
    if abstained:
        return Reading("", "abstained")
    found = lone(text, judged) if lone else None
    return found or Reading("", "no_choice")
