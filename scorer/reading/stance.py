"""The stance of a sentence towards its mentions: states one as the answer, rejects, supposes or only mentions it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple

from lyncean.vocabulary.reasons import Reason
from scorer.reading.context import LEADS, TAILS, Context
from scorer.reading.lexicon import AFTER, ASIDES, BEFORE
from scorer.reading.mentions import LABEL, TEXT, Group, is_number
from scorer.reading.prefilter import Seen


class Stance(Enum):
    """The stance of a sentence towards a group of mentions."""

    FIRM = "firm"
    """Stated as the answer."""
    WEAK = "weak"
    """Preferred tentatively."""
    LED = "led"
    """Concluded, unless another mention in the sentence is the conclusion."""
    ALSO = "also"
    """Called another possible answer."""
    SUPPOSED = "supposed"
    """Supposed, or asked."""
    REJECTED = "rejected"
    """Denied."""
    ASIDE = "aside"
    """Part of a remark on another thing: neither the answer nor denied."""
    NAMED = "named"
    """Only mentioned."""


FIRM, WEAK, LED, ALSO, SUPPOSED, REJECTED, ASIDE, NAMED = Stance
STATED, CHOSEN, CONCLUDED, CORRECTED = Reason.STATED, Reason.CHOSEN, Reason.CONCLUDED, Reason.CORRECTED
SUM, LIKEWISE, ANOTHER = "sum", "likewise", "another"
"""Evidence besides `Reason`: a number that others add up to ("3 + 9 = 12"), and two ways to name another answer."""

Status = tuple[Stance, str]
"""A stance and its evidence: a `Reason`, or one of the three above."""

_REJECTED, _SUPPOSED, _NAMED, _OF_ANOTHER = (REJECTED, ""), (SUPPOSED, ""), (NAMED, ""), (ASIDE, CONCLUDED)
_STATED, _MARKED, _PREFERRED = (FIRM, STATED), (FIRM, Reason.MARKED), (WEAK, STATED)
_LEFT = re.compile(r"\bleft\b", re.IGNORECASE)
"""Next to a left one, "the right one" is a side, not the correct one."""
NEAR = 160
"""Code points before and after a mention in which "left" is searched."""
_VERB = re.compile(r"[)\s]*(?:is|was|can|could|must|would|does)(?:n't|not)?\b", re.IGNORECASE)
"""Verb after a box: the sentence goes on. Without it a new one begins, often without a full stop before it."""
_OWN_LABEL = re.compile(r"(?i:option|choice) [\"'(]?[A-Z1-9]\b")
"""An announcement that only names a label: "in option B there are"."""
_TRUTHS = frozenset(("true", "false", "correct", "incorrect", "right", "wrong"))
_RELATIONS = tuple("=<>+≈≥≤≠")


class _Cues(NamedTuple):
    """Cues of announcements with their reasons, and prefilter bits of sets of cues.

    A text without a bit of a set cannot match any of its cues, which saves a search for each of them.
    """

    announcements: Sequence[tuple[re.Pattern[str], str]]
    singles: int
    verdict: int
    other_lead: int
    other_tail: int
    denies: int
    cued: int
    supposes: int
    praises: int
    leans: int


@cache
def _cues() -> _Cues:
    announcements = (
        (BEFORE.BOXED, Reason.BOXED),
        (BEFORE.ANSWER, STATED),
        (BEFORE.CHOOSE, CHOSEN),
        (BEFORE.INSTEAD, CORRECTED),
        (BEFORE.THEREFORE, CONCLUDED),
        (BEFORE.ANSWER_NOUN, STATED),
        (BEFORE.IDENTIFIES, CONCLUDED),
    )
    return _Cues(
        announcements,
        singles=LEADS.bits(BEFORE.BOXED, BEFORE.ONLY, BEFORE.ALL_BUT),
        verdict=TAILS.bits(AFTER.NO, AFTER.YES),
        other_lead=LEADS.bits(*ASIDES.marked("lead")),
        other_tail=TAILS.bits(ASIDES.WOULD, ASIDES.GROUND, ASIDES.EDGE),
        denies=TAILS.bits(AFTER.NOT_BELONGING, AFTER.WRONG, AFTER.IF, AFTER.ALSO, AFTER.AT_FIRST),
        cued=LEADS.bits(*(pattern for pattern, _ in announcements)),
        supposes=LEADS.bits(BEFORE.HYPOTHETICAL, BEFORE.NEGATED),
        praises=TAILS.bits(AFTER.SOLE_TAIL, AFTER.SOLELY, AFTER.RIGHT, AFTER.FITS, AFTER.MEETS),
        leans=LEADS.bits(BEFORE.LED, BEFORE.MATCHES, BEFORE.MAYBE),
    )


def supposes(clause: Seen) -> bool:
    """Returns true if a clause is a supposition, not a statement."""
    return clause.may(BEFORE.HYPOTHETICAL) and bool(
        BEFORE.HYPOTHETICAL.search(BEFORE.LOOKED.sub(" ", BEFORE.MINE.sub(" ", clause.text)))
    )


def stance_of(text: str, group: Group, here: Context) -> Status:
    """Returns the stance of a group's sentence towards it, and the evidence."""
    return (
        _by_signs(group, here)
        or _of_another(text, group, here)
        or _denied(here)
        or _announced(text, group, here)
        or _unannounced(group, here)
        or _NAMED
    )


def _by_signs(group: Group, here: Context) -> Status | None:
    """Returns the status of a group in a box, after "nothing but", or next to a tick, a cross or "wrong"."""
    lead, tail = here.lead, here.tail
    if lead.hits & _cues().singles:
        if lead.search(BEFORE.BOXED):
            if lead.search(BEFORE.EXAMPLE):
                return _SUPPOSED
            return (REJECTED if _VERB.match(tail.text) and tail.match(AFTER.WRONG) else FIRM), Reason.BOXED
        if lead.search(BEFORE.ONLY):
            return _STATED
        if lead.search(BEFORE.ALL_BUT):
            return (FIRM if tail.match(AFTER.WRONG) else REJECTED), STATED
    if lead.text.endswith(("[x] ", "[] ")) or lead.text in {"(x) ", "() "}:
        return _MARKED if "x" in lead.text[-3:] else _REJECTED
    if group.mentions[0].kind == TEXT and lead.text.endswith("= "):
        return FIRM, SUM
    if here.line_after.hits & _cues().verdict:
        if here.line_after.match(AFTER.NO):
            return _REJECTED
        if here.line_after.match(AFTER.YES):
            return _REJECTED if "|" in here.line_after.text and "✗" in here.line_after.text else _MARKED
    if len(group.values) > 1:
        return None
    before, after = here.line_before, here.line_after.text
    if "✗" in before and ASIDES.STRUCK.fullmatch(before):
        return _REJECTED
    if "✓" in before and ASIDES.TICKED.fullmatch(before):
        return _MARKED
    heads = group.mentions[0].kind == LABEL or (after.startswith(":") and after.rstrip(" .").endswith(("✓", "✗")))
    if heads and BEFORE.LINE_START.fullmatch(before):
        return _REJECTED if AFTER.CROSSED.search(after) else _MARKED if AFTER.MARKED.search(after) else None
    return None


def _of_another(text: str, group: Group, here: Context) -> Status | None:
    """Returns the status of a remark on another thing: the start of a movement, the other options, a bound."""
    lead, tail = here.lead, here.tail
    if not (lead.hits & _cues().other_lead or tail.hits & _cues().other_tail):
        return None
    if group.mentions[0].kind != TEXT:
        return None
    if (
        (lead.search(ASIDES.OTHERS) and not lead.search(ASIDES.EACH))
        or any(lead.search(pattern) for pattern in (ASIDES.PARTLY, ASIDES.RUNNER_UP))
        or tail.match(ASIDES.WOULD)
        or (tail.match(ASIDES.GROUND) and lead.search(ASIDES.BACKDROP))
        or (tail.match(ASIDES.EDGE) and lead.search(ASIDES.WITH))
    ):
        return _OF_ANOTHER
    if not is_number(text, group.mentions[0]):
        return None
    if lead.search(ASIDES.BOUND):
        return SUPPOSED, CONCLUDED
    return (FIRM, SUM) if len(group.values) == 1 and lead.search(ASIDES.TOTAL) else None


def _denied(here: Context) -> Status | None:
    """Returns the status of a group that is denied, or as possible as another."""
    lead, tail = here.lead, here.tail
    denies = tail.hits & _cues().denies
    if lead.search(BEFORE.NOT):
        return _REJECTED
    if denies and tail.match(AFTER.NOT_BELONGING) and not lead.text.strip():
        return _PREFERRED
    if denies and tail.match(AFTER.WRONG):
        return _REJECTED
    if (lead.match(BEFORE.IF_FIRST) and BEFORE.WERE.match(tail.text)) or (
        denies and tail.match(AFTER.IF) and ("would be " in here.clause.text or BEFORE.WERE.match(tail.text))
    ):
        return _SUPPOSED
    if "so " in lead.text and lead.search(BEFORE.LIKEWISE):
        return (REJECTED if lead.search(BEFORE.NEGATED) else ALSO), LIKEWISE
    if denies and tail.match(AFTER.ALSO):
        return ALSO, ""
    if denies and tail.match(AFTER.AT_FIRST):
        return _SUPPOSED
    return (ALSO, ANOTHER) if lead.search(BEFORE.ANOTHER_IS) else None


def _announced(text: str, group: Group, here: Context) -> Status | None:
    """Returns the status of a group after an announcement: "so it must be", "I would go with"."""
    lead, tail, clause = here.lead, here.tail, here.clause
    reckoned = tail.match(AFTER.VARIABLE) or (lead.text[-2:].strip() in _RELATIONS and BEFORE.RELATED.search(lead.text))
    if reckoned and _bare_letter(group) and not BEFORE.LABELLED.search(lead.text):
        return ASIDE, ""
    source, (cue, reason) = clause, _cue(clause)
    if not reason and clause is not lead:
        source, (cue, reason) = lead, _cue(lead)
    if not reason:
        return None
    announcement = source.text[cue:]
    if reason == STATED and group.mentions[0].kind == TEXT and _OWN_LABEL.match(announcement):
        return None
    denies = source.may(BEFORE.NEGATED) and (source is not clause or reason != CORRECTED)
    # "The one that does not fit" denies nothing.
    if denies and BEFORE.NEGATED.search(BEFORE.ODD.sub(" ", announcement)):
        return _REJECTED
    if announcement[:6].lower() == "right " and _LEFT.search(text, max(group.first - NEAR, 0), group.last + NEAR):
        return None
    if group.article and (reason == CONCLUDED or (group.values == ["I"] and reason != STATED)):
        return _NAMED
    if (
        reason in (CHOSEN, CORRECTED, CONCLUDED)
        and group.mentions[-1].kind == LABEL
        and tail.match(AFTER.SUBJECT)
        and not (reason == CONCLUDED and tail.match(AFTER.CLOSES))
    ):
        return None
    if clause.search(BEFORE.GOVERNS) and reason != CORRECTED:
        return _REJECTED
    if (
        clause.search(BEFORE.BAD)
        or (here.question and _asks(here))
        or ("would" in clause.text and lead.match(BEFORE.HAD))
        or (tail.match(AFTER.IF) or tail.match(AFTER.DISOWNED) or supposes(clause) or lead.search(BEFORE.EXAMPLE))
    ):
        return _SUPPOSED
    if tail.match(ASIDES.IN_PART) and text[slice(*group.span)].lower() in _TRUTHS:
        return (ASIDE if ASIDES.YET.search(tail.text) else NAMED), ""
    return FIRM, reason


def _asks(here: Context) -> bool:
    """Returns true if a sentence with a question mark asks, rather than states an answer with doubt."""
    inverted = here.lead.match(BEFORE.INVERTED) or BEFORE.INVERTED.match(here.lead.text.rpartition(": ")[2])
    return bool(inverted or AFTER.DOUBTED.match(here.line_after.text) or AFTER.ASKED.match(here.line_after.text))


def _bare_letter(group: Group) -> bool:
    """Returns true if all mentions are labels without wrapping or announcement."""
    return all(mention.kind == LABEL and mention.first == mention.start for mention in group.mentions)


def _cue(lead: Seen) -> tuple[int, str]:
    """Returns start and reason of the announcement in a lead; 0 and "" if there is none."""
    for pattern, reason in _cues().announcements if lead.hits & _cues().cued else ():
        match = lead.search(pattern)
        if match:
            return match.start(), reason
    return 0, ""


def _unannounced(group: Group, here: Context) -> Status | None:
    """Returns the status of a group that a sentence asks for, supposes, praises or concludes with."""
    lead, tail, clause = here.lead, here.tail, here.clause
    if here.question:
        return _PREFERRED if lead.match(BEFORE.PERHAPS) else _SUPPOSED
    if clause.hits & _cues().supposes:
        if supposes(clause):
            return _SUPPOSED
        if clause.piece(clause.text.rsplit(": ", 1)[-1]).search(BEFORE.NEGATED):
            return _REJECTED
    praised = _praised(group, here) if tail.hits & _cues().praises else None
    if praised or not lead.hits & _cues().leans:
        return praised
    if lead.search(BEFORE.LED) and not tail.match(AFTER.SUBJECT):
        return _SUPPOSED if supposes(lead) and not BEFORE.WHENEVER.search(lead.text) else (LED, CONCLUDED)
    matches = lead.search(BEFORE.MATCHES) and not _bare_letter(group)
    if (matches or lead.search(BEFORE.MAYBE)) and not clause.search(BEFORE.GOVERNS) and not lead.search(BEFORE.LIKENED):
        return _SUPPOSED if tail.match(AFTER.IF) else _PREFERRED
    return None


def _praised(group: Group, here: Context) -> Status | None:
    """Returns the status of a group that is praised after it: "is the correct answer", "fits the pattern best"."""
    lead, tail = here.lead, here.tail
    if tail.match(AFTER.SOLE_TAIL) or (lead.search(BEFORE.SOLE) and tail.match(AFTER.SOLELY)):
        return _PREFERRED
    if not group.plain or not lead.text.strip() or lead.match(BEFORE.AMONG):
        if tail.match(AFTER.RIGHT):
            if tail.match(AFTER.IF) or tail.match(AFTER.DISOWNED):
                return _SUPPOSED
            return (SUPPOSED if lead.search(ASIDES.CONCEDES) and tail.match(ASIDES.SEEMS) else FIRM), STATED
        fits = tail.match(AFTER.FITS)
        if fits and not AFTER.HALF.search(fits["rest"]):
            return _PREFERRED
    meets = tail.match(AFTER.MEETS) if not group.plain and group.mentions[0].kind == LABEL else None
    return _PREFERRED if meets and not AFTER.MISMATCH.search(meets[0]) else None
