"""Reads what an answer states about the things it names.

Everything named is looked at in its own sentence: is it stated as the answer, rejected,
supposed, or only mentioned? The last statement decides. Where nothing is stated, or several
answers are, nothing is read: a wrong reading is worse than none.
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
"""Tells of a folded text what may be found anywhere in it."""


class Reading(NamedTuple):
    """What was read.

    Attributes:
        value: The value stated; "" where nothing was.
        reason: How it was read, or why nothing was.
        span: Where it stands in the folded text.
        inferred: Whether it only follows from the numbers that the text names.
    """

    value: str
    reason: str
    span: tuple[int, int] = (0, 0)
    inferred: bool = False


def takes_back(text: Seen, start: int) -> bool:
    """Returns whether anything from `start` on withdraws what was said before."""
    return text.may(DOCUMENT.TAKEN_BACK) and any(
        not DOCUMENT.FINE.search(match[0]) for match in DOCUMENT.TAKEN_BACK.finditer(text.text, start)
    )


def also_possible(text: Seen) -> bool:
    """Returns whether a text may name a second answer beside the one that it states."""
    return bool(text.found & _second())


@cache
def _second() -> int:
    return seen.bits(AFTER.ALSO, BEFORE.ANOTHER, DOCUMENT.LIKEWISE)


Lone = Callable[[Seen, list[Occurrence]], Reading | None]
"""Reads a text that states nothing from everything that it names."""


def read(seen: Seen, mentions: Sequence[Mention], order: Sequence[str], lone: Lone) -> Reading:
    """Returns the one value that the text states as its answer.

    Args:
        seen: The folded text, and what may be found in it (see `seen`).
        mentions: Everything it names, in order, without overlap.
        order: The labels in their order, by which a list of the options is recognized.
        lone: Reads a text that states nothing from everything that it names.
    """
    text = seen.text
    occurrences = Occurrences(text, mentions, order)
    if not also_possible(seen):
        reading = _stated_last(seen, occurrences, mentions, order)
        if reading:
            return reading
    judged = occurrences.all()
    items = listed(text, judged, order)
    lines = [each for each in judged if occurrences.begins_line(each) and each.group.first not in items]
    statements = [
        (each.group, each.reason)
        for each in judged
        if each.stance == FIRM
        and each.group.first not in items
        and not (len(each.group.values) > 1 and each.here.clause.search(BEFORE.LOOKING))
    ]
    stated = {value for group, _ in statements for value in group.values}
    answers = [
        group for group in _line_answers(text, lines, order, stated) if not next_item(text, group, judged, order)
    ]
    several = len(answers) > 1 and answers[0].values != answers[1].values
    if several and BEFORE.BLANK.fullmatch(text, answers[0].last, answers[1].first):
        return Reading("", Reason.CONFLICT)
    statements += [(group, Reason.BARE) for group in answers]
    if judged and judged[-1].group.first not in items and _ends_alone(text, judged):
        statements.append((judged[-1].group, Reason.BARE))
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
        place = next(index for index, each in enumerate(judged) if each.group is group)
        if _has_beside(text, judged[max(place - 1, 0) : place + 2], judged[place]):
            return Reading("", Reason.CONFLICT)
        return _concluded(seen, group, reason, judged, mentions)
    return _unstated(seen, judged, mentions) or lone(seen, judged) or Reading("", Reason.NO_CHOICE)


def read_end(seen: Seen, mentions: Sequence[Mention], order: Sequence[str], start: int) -> Reading | None:
    """Returns what is stated last, behind `start` in the end of a longer text; None where more of it must be read.

    What stands before changes nothing, except where it names a second answer.
    """
    reading = _stated_last(seen, Occurrences(seen.text, mentions, order), mentions, order)
    return reading if reading and reading.value and reading.span[0] >= start else None


def _stated_last(
    seen: Seen, occurrences: Occurrences, mentions: Sequence[Mention], order: Sequence[str]
) -> Reading | None:
    """Returns the last statement where that alone decides, so that nothing before it need be looked at.

    It does where one value is stated, by more than a tick, no line behind it is an answer by itself, and the text
    nowhere says that there is another answer: of this the caller makes sure.
    """
    behind: list[Occurrence] = []
    backward = occurrences.backward()
    for judged in backward:
        if judged.depends or occurrences.begins_line(judged):
            return None
        behind.insert(0, judged)
        if judged.stance == FIRM:
            if (
                judged.marks
                or judged.reason == SUM
                or _ends_alone(seen.text, behind)
                or listed(seen.text, behind, order)
            ):
                return None
            before = occurrences.before(judged.group)
            near = [next(backward)] if before and cases.near(seen.text, before, judged) else []
            if _has_beside(seen.text, [*near, *behind[:2]], judged):
                return Reading("", Reason.CONFLICT)
            return _concluded(seen, judged.group, judged.reason, behind, mentions)
    return None


def _has_beside(text: str, around: Sequence[Occurrence], own: Occurrence) -> bool:
    """Whether what is named before or behind an answer stands beside it, no less stated."""
    return any(
        own in (one, other)
        and cases.near(text, one.group, other)
        and cases.beside(text, one, other, apart=other is own)
        for one, other in itertools.pairwise(around)
    )


def _ends_alone(text: str, judged: list[Occurrence]) -> bool:
    """Whether the text ends in a label and nothing else, or in what a sentence leads to: "the tears settle it: B."."""
    group, stance, _, here = judged[-1]
    mention, lead = group.mentions[0], here.lead.text
    if stance != NAMED or len(group.values) > 1 or not BEFORE.STOPS.match(text, group.last):
        return False
    if lead.rstrip("( ").endswith(":") and (not mention.plain or BEFORE.HAVING_LOOKED.match(lead)):
        words = [word.strip(",:;()").isalpha() for word in here.clause.text.split()]
        if sum(words) >= (3 if mention.plain else 4) and len(words) - sum(words) < 2:
            return True
    if mention.kind == TEXT:
        if len(judged) > 1 and not lead.strip() and all(each.stance == SUPPOSED for each in judged[:-1]):
            return True
        leads = not mention.plain or BEFORE.HAVING_LOOKED.match(lead)
        return bool(leads and BEFORE.QUESTIONED.search(lead))
    if mention.plain or lead.strip() or not here.line_before.strip():
        return False
    cut_off = not text[group.last :].strip()
    if cut_off and (group.values[0] == "A" or any(each.stance == NAMED for each in judged[:-1])):
        return False
    return bool(text[judged[-2].group.last if len(judged) > 1 else 0 : group.first].strip(" .,;:)(\n"))


def _line_answers(text: str, lines: list[Occurrence], order: Sequence[str], stated: set[str]) -> list[Group]:
    """Returns the groups that are an answer by standing alone on the first or the last line."""
    if not lines:
        return []
    first, last = lines[0], lines[-1]
    values = [line.group.values[0] for line in lines]
    places = list(map(order.index, values))
    several = len(set(values)) > 1
    bare, rest = last.here.alone, last.here.line_after.text
    begins = len(lines) == 1 and not text[: first.group.first].strip()
    answers = []
    if (
        BEFORE.LINE_START.fullmatch(text[: first.group.first])
        and (first.here.alone or not several)
        and places[1:2] != [places[0] + 1]
    ):
        answers.append(first)
    if (
        "\n" not in text[last.group.last :].strip()
        and (bare or not (several or stated - {values[-1]}))
        and places[-2:-1] != [places[-1] - 1]
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
    """Returns where the text says that it has no answer, unless an option says so, or it declines another thing."""
    found = list(DOCUMENT.ABSTAIN.finditer(seen.text, start)) if seen.may(DOCUMENT.ABSTAIN) else []
    if not found:
        return []
    others = [(mention.start, mention.end) for mention in mentions if mention.kind == TEXT]
    others += refusals.clauses(seen.text)
    return [match for match in found if not any(first < match.end() and match.start() < last for first, last in others)]


def _concluded(seen: Seen, group: Group, reason: str, judged: list[Occurrence], mentions: Sequence[Mention]) -> Reading:
    """Returns the last statement, unless what follows takes it back or sets another beside it."""
    text = seen.text
    if text[group.last :].strip(" .!)*\n"):
        denied = any(
            each.group.first > group.last and each.stance == REJECTED and each.group.values == group.values
            for each in judged
        )
        lasting = group.mentions[0].kind == LABEL or DOCUMENT.RESUMED.search(text, group.last)
        if takes_back(seen, group.last) or (denied and lasting):
            return Reading("", Reason.RETRACTED)
        if (
            seen.may(DOCUMENT.RESUMED)
            and DOCUMENT.RESUMED.search(text, group.last)
            and any(
                each.group.first > group.last
                and each.stance not in (REJECTED, SUPPOSED, ASIDE)
                and each.group.values != group.values
                and each.group.mentions[0].kind == group.mentions[0].kind
                for each in judged
            )
        ):
            return Reading("", Reason.CONFLICT)
        # Another option behind it says that there is no answer: "not sure".
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
    marked = [each.group for each in judged if each.stance == FIRM and each.marks]
    if seen.may(DOCUMENT.OTHER_CASE) and _is_case(text, group) and DOCUMENT.OTHER_CASE.search(text, group.last):
        return Reading("", Reason.CONFLICT)
    if group in marked and any(
        other.values != group.values and not DOCUMENT.RESUMED.search(text, other.last, max(group.first, other.last))
        for other in marked
    ):
        return Reading("", Reason.CONFLICT)
    if len(group.values) > 1 or any(
        each.stance == ALSO
        and each.group.values != group.values
        and (
            each.group.first > group.first
            or not (each.reason == "another" or BEFORE.CONTRAST.search(text, each.group.last, group.first))
        )
        for each in judged
    ):
        return Reading("", Reason.CONFLICT)
    return Reading(group.values[0], Reason.CONCLUDED if reason == SUM else reason, group.span)


def _is_case(text: str, group: Group) -> bool:
    """Whether a statement holds under a condition alone: "If the rule is a rotation, the answer would be B"."""
    return bool(BEFORE.IF_FIRST.match(sentence(text[max(group.first - LEAD, 0) : group.first])))


def _unstated(seen: Seen, judged: list[Occurrence], mentions: Sequence[Mention]) -> Reading | None:
    """Returns what a text says that states nothing: a single tentative choice, or that it has no answer."""
    text = seen.text
    abstained = _abstentions(seen, mentions)
    weak = [each for each in judged if each.stance == WEAK]
    if weak:
        first, last = weak[0].group, weak[-1].group
        named = {
            each.group.values[0] for each in judged if each.stance in (NAMED, WEAK) and len(each.group.values) == 1
        }
        also = {value for each in judged if each.stance == ALSO for value in each.group.values}
        certain = {value for each in weak for value in each.group.values}
        closes = weak[-1] is judged[-1] and len(text) - last.last <= 200
        sentence = last.first - len(weak[-1].here.lead.text)
        apart = closes and (len(judged) < 2 or judged[-2].group.last <= sentence)
        if len(certain | also) > 1 or (len(named) > 1 and len(text) <= 400 and not apart):
            return Reading("", Reason.CONFLICT)
        if not abstained or abstained[-1].end() < last.first:
            return Reading(first.values[0], Reason.LIKELY, first.span)
    return Reading("", Reason.ABSTAINED) if abstained else None
