"""Reads texts that name an answer without stating it: "The glove is made of cotton."."""

from __future__ import annotations

from scorer.reading import cues, whole
from scorer.reading.classify import ASIDE, NAMED, REJECTED, SUPPOSED
from scorer.reading.context import context
from scorer.reading.groups import Group
from scorer.reading.mentions import LABEL, TEXT
from scorer.reading.statements import Reading


def lone_label(text: str, judged: list[tuple[Group, str]]) -> Reading | None:
    """Reads a short sentence that names a single label at its end, and judges nothing."""
    kept = [(group, what) for group, what in judged if what not in (REJECTED, ASIDE)]
    if len(kept) != 1:
        return None
    group, what = kept[0]
    stop = cues.SENTENCE_END.search(text, group.last)
    rest = text[group.last : stop.start() if stop else len(text)]
    if group.last > 120 or len(text) - group.last > 200 or "\n" in text[: group.first].strip():
        return None
    here = context(text, group)
    mention = group.mentions[0]
    if what != NAMED or len(group.values) > 1 or mention.plain:
        return None
    looks = here.lead.search(cues.LOOKING) and not cues.HAVING_LOOKED.match(here.lead.text)
    if looks or here.lead.search(cues.EXAMPLE):
        return None
    if cues.DEPICTED.search(text, max(group.first - 60, 0), mention.start):
        return None
    if mention.first == mention.start and mention.last == mention.end and not here.lead.search(cues.SAID):
        return None
    if (
        not here.lead.text.strip()
        and text[: group.first].strip()
        and mention.value == "A"
        and not text[group.last :].strip()
    ):
        return None  # cut off behind an article
    if not cues.AT_END.fullmatch(rest):
        return None
    return Reading(group.values[0], "lone_label", group.span)


def agreed(text: str, judged: list[tuple[Group, str]]) -> Reading | None:
    """Reads a text that names one option both by its label and by its words, and no other."""
    kept = [group for group, what in judged if what not in (REJECTED, ASIDE)]
    kinds = {mention.kind for group in kept for mention in group.mentions if not mention.plain}
    values = {value for group in kept for value in group.values}
    if len(values) != 1 or len(kinds) != 2 or len(text) > 400 or any(what == SUPPOSED for _, what in judged):
        return None
    if cues.CUT_OFF.search(text, max(kept[-1].last, len(text) - 16)):
        return None
    return Reading(kept[-1].values[0], "agreed", kept[-1].span)


def _lists(group: Group) -> bool:
    """Whether it repeats the options: three or more, each by its label and its words."""
    kinds = {(mention.kind, mention.value) for mention in group.mentions}
    return len(group.values) > 2 and all({(LABEL, value), (TEXT, value)} <= kinds for value in group.values)


def eliminated(text: str, judged: list[tuple[Group, str]], order: tuple[str, ...]) -> Reading | None:
    """Reads a text that rejects every label but one, and says nothing against that one."""
    rejected = {value for group, what in judged if what == REJECTED for value in group.values}
    kept = [group for group, what in judged if what not in (REJECTED, SUPPOSED, ASIDE)]
    left = set(order) - rejected
    if len(order) < 3 or len(left) != 1 or not kept or any(set(group.values) != left for group in kept):
        return None
    if kept[-1].mentions[0].plain or any(what == SUPPOSED for _, what in judged):
        return None
    return Reading(kept[-1].values[0], "elimination", kept[-1].span)


def _list_ends(judged: list[tuple[Group, str]], order: tuple[str, ...]) -> int:
    """Returns how many groups only repeat the options, each by its label and its words: "A says red, B says blue"."""
    if len(order) < 3 or len(judged) <= len(order):
        return 0
    for (group, _), label in zip(judged, order, strict=False):
        kinds = [mention.kind for mention in group.mentions]
        if group.values != [label] or kinds != [LABEL, TEXT]:
            return 0
    return len(order)


def lone_text(text: str, judged: list[tuple[Group, str]], order: tuple[str, ...]) -> Reading | None:
    """Reads a short text that names a single option by its words."""
    judged = judged[_list_ends(judged, order) :]
    kept = [(group, what) for group, what in judged if what not in (REJECTED, ASIDE) and not _lists(group)]
    values = {value for group, _ in kept for value in group.values}
    if len(values) > 1 and kept:
        return Reading("", "conflict") if all(group.mentions[0].kind == TEXT for group, _ in kept) else None
    if len(values) != 1 or any(what == SUPPOSED for _, what in kept):
        return None
    group = kept[-1][0]
    if group.last > 400 or len(text) - group.last > 400:
        return None
    if group.mentions[0].kind != TEXT or cues.CUT_OFF.search(text, max(len(text) - 16, 0)):
        return None
    plans = whole.seen(text).may(whole.PLANS) and whole.PLANS.search(text[: group.last])
    if plans or context(text, group).clause.search(cues.LOOKING):
        return None
    return Reading(group.values[0], "option_text", group.span)
