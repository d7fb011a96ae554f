"""Resolves the stances of an answer's sentences to the one option that it states.

Every mention has a stance from its sentence: stated as the answer, rejected, supposed, or only
mentioned. The last statement decides. Without a statement, or with several answers, there is no
reading: a wrong one is worse than none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from lyncean.vocabulary.reasons import Reason
from scorer.reading import cases, refusals
from scorer.reading.context import LEAD, sentence
from scorer.reading.lexicon import AFTER, BEFORE, DOCUMENT
from scorer.reading.lists import listed, next_item
from scorer.reading.mentions import LABEL, TEXT, Group, Mention
from scorer.reading.occurrences import Occurrence, Occurrences
from scorer.reading.prefilter import Prefilter, Seen
from scorer.reading.stance import ALSO, ASIDE, FIRM, NAMED, REJECTED, SUM, SUPPOSED, WEAK

seen = Prefilter(lambda: (*DOCUMENT.marked("text"), *BEFORE.marked("text"), *AFTER.marked("text")))
"""Prefilter of cues that are searched in all of a folded text."""


class Reading(NamedTuple):
    """The value that a text states, or the reason why there is none.

    Attributes:
        value: The stated value; "" if there is none.
        reason: The evidence for the value, or the reason why there is none.
        span: The value's position in the folded text.
        inferred: Whether the value only follows from numbers that the text names.
    """

    value: str
    reason: str
    span: tuple[int, int] = (0, 0)
    inferred: bool = False


def takes_back(text: Seen, start: int) -> bool:
    """Returns true if the text from `start` on withdraws an earlier statement."""
    return text.may(DOCUMENT.TAKEN_BACK) and any(
        not DOCUMENT.FINE.search(match[0]) for match in DOCUMENT.TAKEN_BACK.finditer(text.text, start)
    )


def also_possible(text: Seen) -> bool:
    """Returns true if a text may name a second answer besides the one that it states."""
    return bool(text.hits & _second())


@cache
def _second() -> int:
    return seen.bits(AFTER.ALSO, BEFORE.ANOTHER, DOCUMENT.LIKEWISE)


Fallback = Callable[[Seen, list[Occurrence]], Reading | None]
"""Reads a text that states no option, from all groups of mentions."""


def read(seen: Seen, mentions: Sequence[Mention], order: Sequence[str], fallback: Fallback) -> Reading:
    """Returns the one value that the text states as its answer.

    Args:
        seen: The folded text, with the hits of the prefilter `seen`.
        mentions: All mentions in it, in order, without overlap.
        order: The labels in their order, by which a list of the options is recognized.
        fallback: Reads a text that states no option.
    """
    text = seen.text
    stances = Occurrences(text, mentions, order)
    # Most texts are decided by their last statement; the rest of this function is for the others.
    if not also_possible(seen):
        reading = _stated_last(seen, stances, mentions, order)
        if reading:
            return reading
    occurrences = stances.all()
    items = listed(text, occurrences, order)
    lines = [
        occurrence
        for occurrence in occurrences
        if stances.begins_line(occurrence) and occurrence.group.first not in items
    ]
    statements = [
        (occurrence.group, occurrence.reason)
        for occurrence in occurrences
        if occurrence.stance == FIRM
        and occurrence.group.first not in items
        and not (len(occurrence.group.values) > 1 and occurrence.here.clause.search(BEFORE.LOOKING))
    ]
    stated = {value for group, _ in statements for value in group.values}
    answers = [
        group for group in _line_answers(text, lines, order, stated) if not next_item(text, group, occurrences, order)
    ]
    several = len(answers) > 1 and answers[0].values != answers[1].values
    if several and BEFORE.BLANK.fullmatch(text, answers[0].last, answers[1].first):
        return Reading("", Reason.CONFLICT)
    statements += [(group, Reason.BARE) for group in answers]
    if occurrences and occurrences[-1].group.first not in items and _ends_alone(text, occurrences):
        statements.append((occurrences[-1].group, Reason.BARE))
    # A sum explains a label that was stated before it: "Answer: B. 3 + 9 = 12".
    labels = (group.last for group, reason in statements if reason != SUM and group.mentions[0].kind == LABEL)
    label = max(labels, default=0)
    statements = [
        (group, reason)
        for group, reason in statements
        if reason != SUM or not label or DOCUMENT.RESUMED.search(text, label, max(group.first, label))
    ]
    if statements:
        group, reason = max(reversed(statements), key=lambda statement: statement[0].first)
        index = next(index for index, occurrence in enumerate(occurrences) if occurrence.group is group)
        if _has_beside(text, occurrences[max(index - 1, 0) : index + 2], occurrences[index]):
            return Reading("", Reason.CONFLICT)
        return _concluded(seen, group, reason, occurrences, mentions)
    return _unstated(seen, occurrences, mentions) or fallback(seen, occurrences) or Reading("", Reason.NO_CHOICE)


def read_end(seen: Seen, mentions: Sequence[Mention], order: Sequence[str], start: int) -> Reading | None:
    """Reads the last statement in the end of a long text, if it is after `start`; None if more text must be read.

    The text before cannot change that reading, unless it names a second answer.
    """
    reading = _stated_last(seen, Occurrences(seen.text, mentions, order), mentions, order)
    return reading if reading and reading.value and reading.span[0] >= start else None


def _stated_last(seen: Seen, stances: Occurrences, mentions: Sequence[Mention], order: Sequence[str]) -> Reading | None:
    """Returns the last statement if it alone decides, which saves the stances of all earlier groups.

    It does if it states one value, by more than a tick, and no later line is an answer by itself. The caller makes
    sure that the text names no second answer.
    """
    following: list[Occurrence] = []
    backward = stances.backward()
    for occurrence in backward:
        if occurrence.depends or stances.begins_line(occurrence):
            return None
        following.insert(0, occurrence)
        if occurrence.stance == FIRM:
            if (
                occurrence.marks
                or occurrence.reason == SUM
                or _ends_alone(seen.text, following)
                or listed(seen.text, following, order)
            ):
                return None
            before = stances.before(occurrence.group)
            near = [next(backward)] if before and cases.near(seen.text, before, occurrence) else []
            if _has_beside(seen.text, [*near, *following[:2]], occurrence):
                return Reading("", Reason.CONFLICT)
            return _concluded(seen, occurrence.group, occurrence.reason, following, mentions)
    return None


def _has_beside(text: str, around: Sequence[Occurrence], answer: Occurrence) -> bool:
    """Returns true if a neighbour of an answer is an alternative to it, stated as firmly."""
    return any(
        answer in (one, other)
        and cases.near(text, one.group, other)
        and cases.beside(text, one, other, apart=other is answer)
        for one, other in itertools.pairwise(around)
    )


def _ends_alone(text: str, occurrences: list[Occurrence]) -> bool:
    """Returns true if a text ends with a lone label, or one that its sentence leads to: "the tears settle it: B."."""
    group, stance, _, here = occurrences[-1]
    mention, lead = group.mentions[0], here.lead.text
    if stance != NAMED or len(group.values) > 1 or not BEFORE.STOPS.match(text, group.last):
        return False
    if lead.rstrip("( ").endswith(":") and (not mention.plain or BEFORE.HAVING_LOOKED.match(lead)):
        are_words = [word.strip(",:;()").isalpha() for word in here.clause.text.split()]
        if sum(are_words) >= (3 if mention.plain else 4) and len(are_words) - sum(are_words) < 2:
            return True
    if mention.kind == TEXT:
        if (
            len(occurrences) > 1
            and not lead.strip()
            and all(occurrence.stance == SUPPOSED for occurrence in occurrences[:-1])
        ):
            return True
        leads = not mention.plain or BEFORE.HAVING_LOOKED.match(lead)
        return bool(leads and BEFORE.QUESTIONED.search(lead))
    if mention.plain or lead.strip() or not here.line_before.strip():
        return False
    cut_off = not text[group.last :].strip()
    if cut_off and (group.values[0] == "A" or any(occurrence.stance == NAMED for occurrence in occurrences[:-1])):
        return False
    return bool(text[occurrences[-2].group.last if len(occurrences) > 1 else 0 : group.first].strip(" .,;:)(\n"))


def _line_answers(text: str, lines: list[Occurrence], order: Sequence[str], stated: set[str]) -> list[Group]:
    """Returns the groups that are an answer because they are alone on the first or the last line."""
    if not lines:
        return []
    first, last = lines[0], lines[-1]
    values = [line.group.values[0] for line in lines]
    positions = list(map(order.index, values))
    several = len(set(values)) > 1
    bare, rest = last.here.alone, last.here.line_after.text
    begins = len(lines) == 1 and not text[: first.group.first].strip()
    answers = []
    if (
        BEFORE.LINE_START.fullmatch(text[: first.group.first])
        and (first.here.alone or not several)
        and positions[1:2] != [positions[0] + 1]
    ):
        answers.append(first)
    if (
        "\n" not in text[last.group.last :].strip()
        and (bare or not (several or stated - {values[-1]}))
        and positions[-2:-1] != [positions[-1] - 1]
        and last not in answers
        and not (bare and not begins and (":" in rest or ".." in rest))  # "Option B: ..."
    ):
        answers.append(last)
    return [
        line.group
        for line in answers
        if line.here.alone or text[line.group.first : line.group.last + 2] != "1. "  # A list begins.
    ]


def _abstentions(seen: Seen, mentions: Sequence[Mention], start: int = 0) -> list[re.Match[str]]:
    """Returns the matches of statements of no answer, except in options and in refusals of other things."""
    matches = list(DOCUMENT.ABSTAIN.finditer(seen.text, start)) if seen.may(DOCUMENT.ABSTAIN) else []
    if not matches:
        return []
    others = [(mention.start, mention.end) for mention in mentions if mention.kind == TEXT]
    others += refusals.clauses(seen.text)
    return [
        match for match in matches if not any(first < match.end() and match.start() < last for first, last in others)
    ]


def _concluded(
    seen: Seen, group: Group, reason: str, occurrences: list[Occurrence], mentions: Sequence[Mention]
) -> Reading:
    """Returns the last statement, unless the text after it retracts it or adds another."""
    text = seen.text
    if text[group.last :].strip(" .!)*\n"):
        denied = any(
            occurrence.group.first > group.last
            and occurrence.stance == REJECTED
            and occurrence.group.values == group.values
            for occurrence in occurrences
        )
        lasting = group.mentions[0].kind == LABEL or DOCUMENT.RESUMED.search(text, group.last)
        if takes_back(seen, group.last) or (denied and lasting):
            return Reading("", Reason.RETRACTED)
        if (
            seen.may(DOCUMENT.RESUMED)
            and DOCUMENT.RESUMED.search(text, group.last)
            and any(
                occurrence.group.first > group.last
                and occurrence.stance not in (REJECTED, SUPPOSED, ASIDE)
                and occurrence.group.values != group.values
                and occurrence.group.mentions[0].kind == group.mentions[0].kind
                for occurrence in occurrences
            )
        ):
            return Reading("", Reason.CONFLICT)
        # A later option states the lack of an answer: "not sure".
        if seen.may(DOCUMENT.ABSTAIN) and any(
            mention.kind == TEXT
            and mention.start >= group.last
            and mention.value not in group.values
            and DOCUMENT.ABSTAIN.fullmatch(text, mention.start, mention.end)
            for mention in mentions
        ):
            return Reading("", Reason.CONFLICT)
        for match in _abstentions(seen, mentions, group.last):
            if DOCUMENT.BOTH.match(match[0]):
                return Reading("", Reason.ABSTAINED)
            unsure = DOCUMENT.UNSURE.fullmatch(match[0])
            if DOCUMENT.RESUMED.search(text, group.last, match.start()) or (
                not unsure
                and not text[match.end() :].strip(" .!")
                and BEFORE.SENTENCE_END.search(text, group.last, match.start())
            ):
                return Reading("", Reason.ABSTAINED)
            if not DOCUMENT.UNSURE.fullmatch(match[0]) and DOCUMENT.RESOLVES.search(
                text, max(group.last, match.start() - 60), match.start()
            ):
                return Reading("", Reason.ABSTAINED)
    marked = [occurrence.group for occurrence in occurrences if occurrence.stance == FIRM and occurrence.marks]
    if seen.may(DOCUMENT.OTHER_CASE) and _is_case(text, group) and DOCUMENT.OTHER_CASE.search(text, group.last):
        return Reading("", Reason.CONFLICT)
    if group in marked and any(
        other.values != group.values and not DOCUMENT.RESUMED.search(text, other.last, max(group.first, other.last))
        for other in marked
    ):
        return Reading("", Reason.CONFLICT)
    if len(group.values) > 1 or any(
        occurrence.stance == ALSO
        and occurrence.group.values != group.values
        and (
            occurrence.group.first > group.first
            or not (occurrence.reason == "another" or BEFORE.CONTRAST.search(text, occurrence.group.last, group.first))
        )
        for occurrence in occurrences
    ):
        return Reading("", Reason.CONFLICT)
    return Reading(group.values[0], Reason.CONCLUDED if reason == SUM else reason, group.span)


def _is_case(text: str, group: Group) -> bool:
    """Returns true if a statement is conditional: "If the rule is a rotation, the answer would be B"."""
    return bool(BEFORE.IF_FIRST.match(sentence(text[max(group.first - LEAD, 0) : group.first])))


def _unstated(seen: Seen, occurrences: list[Occurrence], mentions: Sequence[Mention]) -> Reading | None:
    """Reads a text without a statement: a single tentative choice, or an abstention."""
    text = seen.text
    abstained = _abstentions(seen, mentions)
    weak = [occurrence for occurrence in occurrences if occurrence.stance == WEAK]
    if weak:
        first, last = weak[0].group, weak[-1].group
        named = {
            occurrence.group.values[0]
            for occurrence in occurrences
            if occurrence.stance in (NAMED, WEAK) and len(occurrence.group.values) == 1
        }
        also = {value for occurrence in occurrences if occurrence.stance == ALSO for value in occurrence.group.values}
        certain = {value for occurrence in weak for value in occurrence.group.values}
        closes = weak[-1] is occurrences[-1] and len(text) - last.last <= 200
        sentence = last.first - len(weak[-1].here.lead.text)
        apart = closes and (len(occurrences) < 2 or occurrences[-2].group.last <= sentence)
        if len(certain | also) > 1 or (len(named) > 1 and len(text) <= 400 and not apart):
            return Reading("", Reason.CONFLICT)
        if not abstained or abstained[-1].end() < last.first:
            return Reading(first.values[0], Reason.LIKELY, first.span)
    return Reading("", Reason.ABSTAINED) if abstained else None
