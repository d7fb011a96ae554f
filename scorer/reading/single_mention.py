"""Reads texts that name an answer without stating it: "The glove is made of cotton."."""

from __future__ import annotations

from lyncean.reasons import Reason
from scorer.reading.context import Context
from scorer.reading.lexicon import AFTER, BEFORE, DOCUMENT, Lexicon
from scorer.reading.mentions import LABEL, TEXT, Group
from scorer.reading.partial_match import telling
from scorer.reading.prefilter import Seen
from scorer.reading.resolve import Reading
from scorer.reading.stance import ASIDE, NAMED, REJECTED, SUPPOSED, Occurrence

LEXICON = Lexicon("single_mention")

_SHORT = 400


def _one_label(judged: Occurrence) -> bool:
    """Whether a single label is named, and nothing said of it."""
    group = judged.group
    return judged.stance == NAMED and len(group.values) == 1 and group.mentions[0].kind == LABEL


def _values(judged: list[Occurrence]) -> set[str]:
    return {value for each in judged for value in each.group.values}


def lone_label(text: str, judged: list[Occurrence]) -> Reading | None:
    """Reads a short sentence that names a single label at its end, and judges nothing."""
    kept = [each for each in judged if each.stance not in (REJECTED, ASIDE)]
    if len(kept) != 1:
        return None
    group, stance, _, here = kept[0]
    stop = BEFORE.SENTENCE_END.search(text, group.last)
    rest = text[group.last : stop.start() if stop else len(text)]
    if group.last > 120 or len(text) - group.last > 200 or "\n" in text[: group.first].strip():
        return None
    mention = group.mentions[0]
    if stance != NAMED or len(group.values) > 1 or mention.plain:
        return None
    looks = here.lead.search(BEFORE.LOOKING) and not BEFORE.HAVING_LOOKED.match(here.lead.text)
    if looks or here.lead.search(BEFORE.EXAMPLE):
        return None
    if LEXICON.DEPICTED.search(text, max(group.first - 60, 0), mention.start):
        return None
    if mention.first == mention.start and mention.last == mention.end and not here.lead.search(BEFORE.SAID):
        return None
    if (
        not here.lead.text.strip()
        and text[: group.first].strip()
        and mention.value == "A"
        and mention.last == mention.end
        and not text[group.last :].strip()
    ):
        return None  # cut off behind an article
    if not BEFORE.AT_END.fullmatch(rest):
        return None
    return Reading(group.values[0], Reason.LONE_LABEL, group.span)


def agreed(text: str, judged: list[Occurrence]) -> Reading | None:
    """Reads a text that names one option both by its label and by its words, and no other."""
    kept = [each.group for each in judged if each.stance not in (REJECTED, ASIDE)]
    kinds = {mention.kind for group in kept for mention in group.mentions if not mention.plain}
    values = {value for group in kept for value in group.values}
    if len(values) != 1 or len(kinds) != 2 or len(text) > 400 or any(each.stance == SUPPOSED for each in judged):
        return None
    if LEXICON.CUT_OFF.search(text, max(kept[-1].last, len(text) - 16)):
        return None
    return Reading(kept[-1].values[0], Reason.AGREED, kept[-1].span)


def _lists(group: Group) -> bool:
    """Whether it repeats the options: three or more, each by its label and its words."""
    kinds = {(mention.kind, mention.value) for mention in group.mentions}
    return len(group.values) > 2 and all({(LABEL, value), (TEXT, value)} <= kinds for value in group.values)


def fits_need(text: str, judged: list[Occurrence]) -> Reading | None:
    """Reads the one label of which the last sentence says what was needed: "So 8 dots come next. C has 8 dots."."""
    kept = [each for each in judged if each.stance != REJECTED and not each.group.plain]
    if len(kept) != 1 or not _one_label(kept[0]):
        return None
    group, _, _, here = kept[0]
    shown = LEXICON.SHOWS.match(text, group.last)
    before = [part for part in BEFORE.SENTENCE_END.split(text[: group.first].rstrip()) if part.strip()]
    if not shown or not before or AFTER.MISMATCH.search(shown["what"]) or here.lead.text.strip():
        return None
    told = set(telling(shown["what"].lower()))
    if len(told) < 2 or not LEXICON.NEEDED.search(before[-1]) or not told <= set(telling(before[-1].lower())):
        return None
    return Reading(group.values[0], Reason.CONCLUDED, group.span)


def eliminated(text: str, judged: list[Occurrence], order: tuple[str, ...]) -> Reading | None:
    """Reads a text that rejects every label but one, and says nothing against that one."""
    rejected = [each.group for each in judged if each.stance == REJECTED]
    kept = [each.group for each in judged if each.stance not in (REJECTED, SUPPOSED, ASIDE)]
    left = set(order) - {value for group in rejected for value in group.values}
    denied = {group.values[0]: group.first for group in rejected if len(group.values) == 1}
    # "A. red: the umbrella is not red."
    kept = [group for group in kept if len(group.values) > 1 or denied.get(group.values[0], -1) < group.first]
    if len(order) < 3 or len(left) != 1 or not kept or any(set(group.values) != left for group in kept):
        return None
    if kept[-1].mentions[0].plain or any(each.stance == SUPPOSED for each in judged):
        return None
    return Reading(kept[-1].values[0], Reason.ELIMINATION, kept[-1].span)


def _list_ends(judged: list[Occurrence], order: tuple[str, ...]) -> int:
    """Returns how many groups only repeat the options, each by its label and its words: "A says red, B says blue"."""
    if len(order) < 3 or len(judged) <= len(order):
        return 0
    for each, label in zip(judged, order, strict=False):
        kinds = [mention.kind for mention in each.group.mentions]
        if each.group.values != [label] or kinds != [LABEL, TEXT]:
            return 0
    return len(order)


def _explains(here: Context) -> bool:
    """Whether a group gives the reason for the one behind it: "Since volume decreases, pressure increases"."""
    return bool(LEXICON.SINCE.match(here.lead.text) and LEXICON.THEN.match(here.tail.text))


def _describes(text: str, group: Group, last: Occurrence) -> bool:
    """Whether a group only tells which thing it is of which the last says more: "The car by the orange van is blue"."""
    lead, first = last.here.lead.text, last.group.first
    return first - len(lead) <= group.first < first and bool(
        BEFORE.FINALLY.search(lead) and LEXICON.NOUN_FOLLOWS.match(text, group.last)
    )


def _weighed(text: str, kept: list[Occurrence]) -> list[Occurrence]:
    """Returns the groups without those that explain another, describe its subject or are supposed before it."""
    last = kept[-1]
    rest = [
        each
        for each in kept[:-1]
        if not (
            _explains(each.here)
            or _describes(text, each.group, last)
            or (
                each.stance == SUPPOSED
                and last.stance == NAMED
                and BEFORE.CONTRAST.search(text, each.group.last, last.group.first)
            )
        )
    ]
    return [*rest, last]


def identified(text: str, judged: list[Occurrence]) -> Reading | None:
    """Reads an answer of one sentence that says of one label what it is: "C is the mirror image of the figure"."""
    kept = [each for each in judged if not each.group.plain]
    if len(kept) != 1 or not _one_label(kept[0]):
        return None
    group = kept[0].group
    shown = LEXICON.IDENTIFIED.match(text, group.last)
    if not shown or AFTER.MISMATCH.search(shown[0]) or not LEXICON.SUBJECT_ONLY.fullmatch(text[: group.first]):
        return None
    return Reading(group.values[0], Reason.CONCLUDED, group.span)


def _cut_off(text: str, group: Group, here: Context, named: set[str]) -> bool:
    """Whether the text ends in the middle of what it says of an option, or before what it says of several."""
    if not LEXICON.CUT_OFF.search(text, max(len(text) - 16, 0)):
        return False
    if len(named) == 1 and LEXICON.ANNOUNCES.search(text, group.last):
        return False
    told = LEXICON.TOLD.fullmatch(text, group.last) and LEXICON.SAYS.search(here.clause.text)
    return not told or bool(here.lead.match(BEFORE.INVERTED))


def lone_text(seen: Seen, judged: list[Occurrence], order: tuple[str, ...]) -> Reading | None:
    """Reads a short text that names a single option by its words."""
    text = seen.text
    judged = judged[_list_ends(judged, order) :]
    kept = [each for each in judged if each.stance not in (REJECTED, ASIDE) and not _lists(each.group)]
    values = _values(kept)
    if len(values) > 1 and len(text) < 3 * _SHORT:
        kept = _weighed(text, kept)
        values = _values(kept)
    if len(values) > 1:
        return Reading("", Reason.CONFLICT) if all(each.group.mentions[0].kind == TEXT for each in kept) else None
    if len(values) != 1 or any(each.stance == SUPPOSED for each in kept):
        return None
    group, _, _, here = kept[-1]
    if group.last > _SHORT or len(text) - group.last > _SHORT:
        return None
    if group.mentions[0].kind != TEXT or _cut_off(text, group, here, _values(judged)):
        return None
    if LEXICON.OF_SUBJECT.fullmatch(here.lead.text) and LEXICON.BEHIND_SUBJECT.match(text, group.last):
        return None
    if text[: group.first].strip() and not here.lead.text.strip() and LEXICON.GENERIC.match(text, group.last):
        return None
    plans = seen.may(DOCUMENT.PLANS) and DOCUMENT.PLANS.search(text[: group.last])
    if (plans and not LEXICON.CONCLUDES.match(here.line_before)) or here.clause.search(BEFORE.LOOKING):
        return None
    return Reading(group.values[0], Reason.OPTION_TEXT, group.span)


def opposite(text: str, judged: list[Occurrence], order: tuple[str, ...]) -> Reading | None:
    """Reads a short text that denies one of two options of which the other then holds: "That is not true."."""
    denied = _values(judged)
    if len(denied) != 1 or len(text) > 200 or any(each.stance != REJECTED for each in judged):
        return None
    return Reading(next(label for label in order if label not in denied), Reason.NEGATION, judged[0].group.span)
