"""What a sentence does with what it names: states it as the answer, rejects it, supposes it, or only mentions it."""

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
    """What a sentence does with what it names."""

    FIRM = "firm"
    """States it as the answer."""
    WEAK = "weak"
    """Prefers it tentatively."""
    LED = "led"
    """Arrives at it, unless something else named in the sentence is what leads there."""
    ALSO = "also"
    """Calls it another possible answer."""
    SUPPOSED = "supposed"
    """Supposes it, or asks."""
    REJECTED = "rejected"
    """Denies it."""
    ASIDE = "aside"
    """Speaks of another thing: it is neither the answer nor denied."""
    NAMED = "named"
    """Only mentions it."""


FIRM, WEAK, LED, ALSO, SUPPOSED, REJECTED, ASIDE, NAMED = Stance
STATED, CHOSEN, CONCLUDED, CORRECTED = Reason.STATED, Reason.CHOSEN, Reason.CONCLUDED, Reason.CORRECTED
SUM, LIKEWISE, ANOTHER = "sum", "likewise", "another"
"""How a number is stated that others come to ("3 + 9 = 12"), and how another answer is."""

Status = tuple[Stance, str]
"""The stance to something named, and how it is said: a reason, or one of the words above."""

_REJECTED, _SUPPOSED, _NAMED, _OF_ANOTHER = (REJECTED, ""), (SUPPOSED, ""), (NAMED, ""), (ASIDE, CONCLUDED)
_STATED, _MARKED, _PREFERRED = (FIRM, STATED), (FIRM, Reason.MARKED), (WEAK, STATED)
_LEFT = re.compile(r"\bleft\b", re.IGNORECASE)
"""The right one, beside a left one, is not the correct one."""
NEAR = 160
"""Code points before and behind a name in which a left one is looked for."""
_VERB = re.compile(r"[)\s]*(?:is|was|can|could|must|would|does)(?:n't|not)?\b", re.IGNORECASE)
"""Behind a box: its sentence goes on, where often the next one begins without a full stop before it."""
_OWN_LABEL = re.compile(r"(?i:option|choice) [\"'(]?[A-Z1-9]\b")
"""Announces its own label and no answer: "in option B there are"."""
_TRUTHS = frozenset(("true", "false", "correct", "incorrect", "right", "wrong"))
_RELATIONS = tuple("=<>+≈≥≤≠")


class _Words(NamedTuple):
    """Cues with what they state; and bits: a text in which none of these may be found need not be searched for each."""

    cues: Sequence[tuple[re.Pattern[str], str]]
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
def _words() -> _Words:
    cues = (
        (BEFORE.BOXED, Reason.BOXED),
        (BEFORE.ANSWER, STATED),
        (BEFORE.CHOOSE, CHOSEN),
        (BEFORE.INSTEAD, CORRECTED),
        (BEFORE.THEREFORE, CONCLUDED),
        (BEFORE.ANSWER_NOUN, STATED),
        (BEFORE.IDENTIFIES, CONCLUDED),
    )
    return _Words(
        cues,
        singles=LEADS.bits(BEFORE.BOXED, BEFORE.ONLY, BEFORE.ALL_BUT),
        verdict=TAILS.bits(AFTER.NO, AFTER.YES),
        other_lead=LEADS.bits(*ASIDES.marked("lead")),
        other_tail=TAILS.bits(ASIDES.WOULD, ASIDES.GROUND, ASIDES.EDGE),
        denies=TAILS.bits(AFTER.NOT_BELONGING, AFTER.WRONG, AFTER.IF, AFTER.ALSO, AFTER.AT_FIRST),
        cued=LEADS.bits(*(pattern for pattern, _ in cues)),
        supposes=LEADS.bits(BEFORE.HYPOTHETICAL, BEFORE.NEGATED),
        praises=TAILS.bits(AFTER.SOLE_TAIL, AFTER.SOLELY, AFTER.RIGHT, AFTER.FITS, AFTER.MEETS),
        leans=LEADS.bits(BEFORE.LED, BEFORE.MATCHES, BEFORE.MAYBE),
    )


def supposes(clause: Seen) -> bool:
    """Returns whether a clause supposes rather than states."""
    return clause.may(BEFORE.HYPOTHETICAL) and bool(
        BEFORE.HYPOTHETICAL.search(BEFORE.LOOKED.sub(" ", BEFORE.MINE.sub(" ", clause.text)))
    )


def stance_of(text: str, group: Group, here: Context) -> Status:
    """Returns what a group's sentence does with it, and how that was said."""
    return (
        _by_signs(group, here)
        or _of_another(text, group, here)
        or _denied(here)
        or _announced(text, group, here)
        or _unannounced(group, here)
        or _NAMED
    )


def _by_signs(group: Group, here: Context) -> Status | None:
    """Returns the status of what stands in a box, behind "nothing but", or beside a tick, a cross or "wrong"."""
    lead, tail = here.lead, here.tail
    if lead.found & _words().singles:
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
    if here.line_after.found & _words().verdict:
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
    """Returns the status of what is said of another thing: where a movement starts, what the others are, a bound."""
    lead, tail = here.lead, here.tail
    if not (lead.found & _words().other_lead or tail.found & _words().other_tail):
        return None
    if group.mentions[0].kind != TEXT:
        return None
    if (
        (lead.search(ASIDES.OTHERS) and not lead.search(ASIDES.EACH))
        or any(lead.search(words) for words in (ASIDES.PARTLY, ASIDES.RUNNER_UP))
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
    """Returns the status of what is denied, or is as possible as another thing."""
    lead, tail = here.lead, here.tail
    denies = tail.found & _words().denies
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
    """Returns the status of what the words before it announce as the answer: "so it must be", "I would go with"."""
    lead, tail, clause = here.lead, here.tail, here.clause
    reckoned = tail.match(AFTER.VARIABLE) or (lead.text[-2:].strip() in _RELATIONS and BEFORE.RELATED.search(lead.text))
    if reckoned and _bare_letter(group) and not BEFORE.LABELLED.search(lead.text):
        return ASIDE, ""
    said, (cue, reason) = clause, _cue(clause)
    if not reason and clause is not lead:
        said, (cue, reason) = lead, _cue(lead)
    if not reason:
        return None
    announcement = said.text[cue:]
    if reason == STATED and group.mentions[0].kind == TEXT and _OWN_LABEL.match(announcement):
        return None
    denies = said.may(BEFORE.NEGATED) and (said is not clause or reason != CORRECTED)
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
    """Whether a sentence that ends in a question mark asks, and does not say its answer with a doubt."""
    inverted = here.lead.match(BEFORE.INVERTED) or BEFORE.INVERTED.match(here.lead.text.rpartition(": ")[2])
    return bool(inverted or AFTER.DOUBTED.match(here.line_after.text) or AFTER.ASKED.match(here.line_after.text))


def _bare_letter(group: Group) -> bool:
    """Whether it is named by labels alone that nothing wraps or announces."""
    return all(mention.kind == LABEL and mention.first == mention.start for mention in group.mentions)


def _cue(lead: Seen) -> tuple[int, str]:
    """Returns where the words begin that announce an answer, and what they make of it; "" if there are none."""
    for pattern, reason in _words().cues if lead.found & _words().cued else ():
        match = lead.search(pattern)
        if match:
            return match.start(), reason
    return 0, ""


def _unannounced(group: Group, here: Context) -> Status | None:
    """Returns the status of what a sentence asks for, supposes, praises or arrives at."""
    lead, tail, clause = here.lead, here.tail, here.clause
    if here.question:
        return _PREFERRED if lead.match(BEFORE.PERHAPS) else _SUPPOSED
    if clause.found & _words().supposes:
        if supposes(clause):
            return _SUPPOSED
        if clause.piece(clause.text.rsplit(": ", 1)[-1]).search(BEFORE.NEGATED):
            return _REJECTED
    praised = _praised(group, here) if tail.found & _words().praises else None
    if praised or not lead.found & _words().leans:
        return praised
    if lead.search(BEFORE.LED) and not tail.match(AFTER.SUBJECT):
        return _SUPPOSED if supposes(lead) and not BEFORE.WHENEVER.search(lead.text) else (LED, CONCLUDED)
    matches = lead.search(BEFORE.MATCHES) and not _bare_letter(group)
    if (matches or lead.search(BEFORE.MAYBE)) and not clause.search(BEFORE.GOVERNS) and not lead.search(BEFORE.LIKENED):
        return _SUPPOSED if tail.match(AFTER.IF) else _PREFERRED
    return None


def _praised(group: Group, here: Context) -> Status | None:
    """Returns the status of what the words behind it commend: "is the correct answer", "fits the pattern best"."""
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
