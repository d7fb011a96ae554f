"""What a sentence does with what it names: states it as the answer, rejects it, supposes it, or only mentions it."""

from __future__ import annotations

import re

from scorer.reading.context import LEADS, TAILS, Context
from scorer.reading.lexicon import AFTER, ASIDES, BEFORE
from scorer.reading.mention_groups import Group
from scorer.reading.mentions import LABEL, TEXT, is_number
from scorer.reading.prefilter import Seen

FIRM, WEAK, REJECTED, NAMED, SUPPOSED, LED, ALSO = "firm", "weak", "rejected", "named", "supposed", "led", "also"
ASIDE = "aside"
"""Said of another thing: neither the answer nor denied."""

SUM = "sum"
"""How a number is stated that others come to: "3 + 9 = 12"."""

Status = tuple[str, str]
"""What becomes of something named, and how that was said."""

_CUES = (
    *((BEFORE.BOXED, "boxed"), (BEFORE.ANSWER, "stated"), (BEFORE.CHOOSE, "chosen"), (BEFORE.INSTEAD, "corrected")),
    *((BEFORE.THEREFORE, "concluded"), (BEFORE.ANSWER_NOUN, "stated"), (BEFORE.IDENTIFIES, "concluded")),
)

# Of leads and tails in which none of these may be found, the functions below need not ask for each.
_SINGLES = LEADS.bits(BEFORE.BOXED, BEFORE.ONLY, BEFORE.ALL_BUT)
_VERDICT = TAILS.bits(AFTER.NO, AFTER.YES)
_OTHER_LEAD = LEADS.bits(
    ASIDES.OTHERS,
    ASIDES.PARTLY,
    ASIDES.RUNNER_UP,
    ASIDES.BACKDROP,
    ASIDES.BOUND,
    ASIDES.TOTAL,
    ASIDES.WITH,
    BEFORE.ORIGIN,
)
_OTHER_TAIL = TAILS.bits(ASIDES.WOULD, ASIDES.GROUND, ASIDES.EDGE)
_DENIES = TAILS.bits(AFTER.NOT_BELONGING, AFTER.WRONG, AFTER.AT_FIRST, AFTER.ALSO)
_ANOTHER = LEADS.bits(BEFORE.ANOTHER_IS)
_CONDITION = TAILS.bits(AFTER.IF)
_CUED = LEADS.bits(*(pattern for pattern, _ in _CUES))
_SUPPOSES = LEADS.bits(BEFORE.HYPOTHETICAL, BEFORE.NEGATED)
_PRAISES = TAILS.bits(AFTER.SOLE_TAIL, AFTER.SOLELY, AFTER.RIGHT, AFTER.FITS, AFTER.MEETS)
_LEFT = re.compile(r"\bleft\b", re.IGNORECASE)
"""The right one, beside a left one, is not the correct one."""
NEAR = 160
"""Code points before and behind a name in which a left one is looked for."""
_VERB = re.compile(r"[)\s]*(?:is|was|can|could|must|would|does)(?:n't|not)?\b", re.IGNORECASE)
"""Behind a box: its sentence goes on, where often the next one begins without a full stop before it."""
_TRUTHS = frozenset(("true", "false", "correct", "incorrect", "right", "wrong"))
_TICKS = ("✓", "✗")
_RELATIONS = tuple("=<>+≈≥≤≠")
_LEANS = LEADS.bits(BEFORE.LED, BEFORE.MATCHES, BEFORE.MAYBE)


def supposes(clause: Seen) -> bool:
    """Returns whether a clause supposes rather than states."""
    if not clause.may(BEFORE.HYPOTHETICAL):
        return False
    return bool(BEFORE.HYPOTHETICAL.search(BEFORE.LOOKED.sub(" ", BEFORE.MINE.sub(" ", clause.text))))


def negates(words: Seen) -> bool:
    """Returns whether a noun's sentence denies it, other than by what singles it out: "the one that does not fit"."""
    return words.may(BEFORE.NEGATED) and bool(BEFORE.NEGATED.search(BEFORE.ODD.sub(" ", words.text)))


def classify(text: str, group: Group, here: Context) -> Status:
    """Returns what a group's sentence does with it, and how that was said."""
    return (
        _by_signs(group, here)
        or _of_another(text, group, here)
        or _denied(here)
        or _announced(text, group, here)
        or _unannounced(group, here)
        or (NAMED, "")
    )


def _by_signs(group: Group, here: Context) -> Status | None:
    """Returns the status of what stands in a box, behind "nothing but", or beside a tick, a cross or "wrong"."""
    lead = here.lead
    single = lead.found & _SINGLES
    if single and lead.search(BEFORE.BOXED):
        return (REJECTED if _VERB.match(here.tail.text) and here.tail.match(AFTER.WRONG) else FIRM), "boxed"
    if lead.text.endswith("[x] "):
        return FIRM, "marked"
    if lead.text.endswith("[] "):
        return REJECTED, ""
    if group.mentions[0].kind == TEXT and lead.text.endswith("= "):
        return FIRM, SUM
    if single and lead.search(BEFORE.ONLY):
        return FIRM, "stated"
    if single and lead.search(BEFORE.ALL_BUT):
        return (FIRM if here.tail.match(AFTER.WRONG) else REJECTED), "stated"
    if here.line_after.found & _VERDICT:
        if here.line_after.match(AFTER.NO):
            return REJECTED, ""
        if here.line_after.match(AFTER.YES):
            return FIRM, "marked"
    return _by_line(group, here) if len(group.values) == 1 else None


def _by_line(group: Group, here: Context) -> Status | None:
    """Returns the status of what stands behind a tick or a cross, or begins a line that ends in a verdict."""
    before, after = here.line_before, here.line_after.text
    if "✗" in before and ASIDES.STRUCK.fullmatch(before):
        return REJECTED, ""
    if "✓" in before and ASIDES.TICKED.fullmatch(before):
        return FIRM, "marked"
    heads = group.mentions[0].kind == LABEL or (after.startswith(":") and after.rstrip(" .")[-1:] in _TICKS)
    if heads and BEFORE.LINE_START.fullmatch(before):
        if AFTER.CROSSED.search(after):
            return REJECTED, ""
        if AFTER.MARKED.search(after):
            return FIRM, "marked"
    return None


def _of_another(text: str, group: Group, here: Context) -> Status | None:
    """Returns the status of what is said of another thing: where a movement starts, what the others are, a bound."""
    lead, tail = here.lead, here.tail
    if not (lead.found & _OTHER_LEAD or tail.found & _OTHER_TAIL):
        return None
    if tail.match(BEFORE.GOAL) and lead.search(BEFORE.ORIGIN):
        return NAMED, ""
    if group.mentions[0].kind != TEXT:
        return None
    if any(lead.search(words) for words in (ASIDES.OTHERS, ASIDES.PARTLY, ASIDES.RUNNER_UP)):
        return ASIDE, "concluded"
    if tail.match(ASIDES.WOULD):
        return ASIDE, "concluded"
    if (tail.match(ASIDES.GROUND) and lead.search(ASIDES.BACKDROP)) or (
        tail.match(ASIDES.EDGE) and lead.search(ASIDES.WITH)
    ):
        return ASIDE, "concluded"
    if not is_number(text, group.mentions[0]):
        return None
    if lead.search(ASIDES.BOUND):
        return SUPPOSED, "concluded"
    return (FIRM, SUM) if len(group.values) == 1 and lead.search(ASIDES.TOTAL) else None


def _denied(here: Context) -> Status | None:
    """Returns the status of what is denied, or is as possible as another thing."""
    lead, tail = here.lead, here.tail
    if lead.search(BEFORE.NOT):
        return REJECTED, ""
    denies = tail.found & _DENIES
    if denies and tail.match(AFTER.NOT_BELONGING) and not lead.text.strip():
        return WEAK, "stated"
    if denies and tail.match(AFTER.WRONG):
        return REJECTED, ""
    if (lead.match(BEFORE.IF_FIRST) and BEFORE.WERE.match(tail.text)) or (
        tail.found & _CONDITION
        and tail.match(AFTER.IF)
        and ("would be " in here.clause.text or BEFORE.WERE.match(tail.text))
    ):
        return SUPPOSED, ""
    if "so " in lead.text and lead.search(BEFORE.LIKEWISE):
        return (REJECTED if lead.search(BEFORE.NEGATED) else ALSO), "likewise"
    if denies and tail.match(AFTER.ALSO):
        return ALSO, ""
    if denies and tail.match(AFTER.AT_FIRST):
        return SUPPOSED, ""
    return (ALSO, "another") if lead.found & _ANOTHER and lead.search(BEFORE.ANOTHER_IS) else None


def _announced(text: str, group: Group, here: Context) -> Status | None:
    """Returns the status of what the words before it announce as the answer: "so it must be", "I would go with"."""
    lead, tail, clause = here.lead, here.tail, here.clause
    reckoned = tail.match(AFTER.VARIABLE) or (lead.text[-2:].strip() in _RELATIONS and BEFORE.RELATED.search(lead.text))
    if reckoned and _bare_letter(group) and not BEFORE.LABELLED.search(lead.text):
        return ASIDE, ""
    said = clause
    cue, reason = _cue(clause)
    if cue is None and clause is not lead:
        said = lead
        cue, reason = _cue(lead)
        if cue is not None and negates(lead.piece(lead.text[cue:])):
            return REJECTED, ""
    elif cue is not None and reason != "corrected" and negates(clause.piece(clause.text[cue:])):
        return REJECTED, ""
    if cue is None or (said.text[cue : cue + 6].lower() == "right " and _LEFT.search(_near(text, group))):
        return None
    if group.article and (reason == "concluded" or (group.values == ["I"] and reason != "stated")):
        return NAMED, ""
    if (
        reason in ("chosen", "corrected", "concluded")
        and group.mentions[-1].kind == LABEL
        and tail.match(AFTER.SUBJECT)
        and not (reason == "concluded" and tail.match(AFTER.CLOSES))
    ):
        return None
    if clause.search(BEFORE.GOVERNS) and reason != "corrected":
        return REJECTED, ""
    if clause.search(BEFORE.BAD):
        return SUPPOSED, ""
    if here.question and _asks(here):
        return SUPPOSED, ""
    if "would" in clause.text and lead.match(BEFORE.HAD):
        return SUPPOSED, ""
    if tail.match(AFTER.IF) or tail.match(AFTER.DISOWNED) or supposes(clause) or lead.search(BEFORE.EXAMPLE):
        return SUPPOSED, ""
    if tail.match(ASIDES.IN_PART) and text[slice(*group.span)].lower() in _TRUTHS:
        return (ASIDE if ASIDES.YET.search(tail.text) else NAMED), ""
    return FIRM, reason


def _asks(here: Context) -> bool:
    """Whether a sentence that ends in a question mark asks, and does not say its answer with a doubt."""
    last = here.lead.text.rpartition(": ")[2]
    inverted = here.lead.match(BEFORE.INVERTED) or BEFORE.INVERTED.match(last)
    return bool(inverted or AFTER.DOUBTED.match(here.line_after.text) or AFTER.ASKED.match(here.line_after.text))


def _near(text: str, group: Group) -> str:
    return text[max(group.first - NEAR, 0) : group.last + NEAR]


def _bare_letter(group: Group) -> bool:
    """Whether it is named by labels alone that nothing wraps or announces."""
    return all(mention.kind == LABEL and mention.first == mention.start for mention in group.mentions)


def _cue(lead: Seen) -> tuple[int | None, str]:
    """Returns where the words begin that announce an answer, and what they make of it; None if there are none."""
    if lead.found & _CUED:
        for pattern, reason in _CUES:
            match = lead.search(pattern)
            if match:
                return match.start(), reason
    return None, ""


def _unannounced(group: Group, here: Context) -> Status | None:
    """Returns the status of what a sentence asks for, supposes, praises or arrives at."""
    lead, clause = here.lead, here.clause
    if here.question and lead.match(BEFORE.PERHAPS):
        return WEAK, "stated"
    if here.question:
        return SUPPOSED, ""
    if clause.found & _SUPPOSES:
        if supposes(clause):
            return SUPPOSED, ""
        if clause.piece(clause.text.rsplit(": ", 1)[-1]).search(BEFORE.NEGATED):
            return REJECTED, ""
    praised = _praised(group, here) if here.tail.found & _PRAISES else None
    if praised or not lead.found & _LEANS:
        return praised
    if lead.search(BEFORE.LED) and not here.tail.match(AFTER.SUBJECT):
        if supposes(clause) or (supposes(lead) and not BEFORE.WHENEVER.search(lead.text)):
            return SUPPOSED, ""
        return LED, "concluded"
    matches = lead.search(BEFORE.MATCHES) and not _bare_letter(group)
    if (matches or lead.search(BEFORE.MAYBE)) and not clause.search(BEFORE.GOVERNS) and not lead.search(BEFORE.LIKENED):
        return WEAK, "stated"
    return None


def _praised(group: Group, here: Context) -> Status | None:
    """Returns the status of what the words behind it commend: "is the correct answer", "fits the pattern best"."""
    lead, tail = here.lead, here.tail
    if tail.match(AFTER.SOLE_TAIL) or (lead.search(BEFORE.SOLE) and tail.match(AFTER.SOLELY)):
        return WEAK, "stated"
    if not group.plain or not lead.text.strip() or lead.match(BEFORE.AMONG):
        if tail.match(AFTER.RIGHT):
            if tail.match(AFTER.IF) or tail.match(AFTER.DISOWNED):
                return SUPPOSED, ""
            return (SUPPOSED if lead.search(ASIDES.CONCEDES) and tail.match(ASIDES.SEEMS) else FIRM), "stated"
        fits = tail.match(AFTER.FITS)
        if fits and not AFTER.HALF.search(fits["rest"]):
            return WEAK, "stated"
    meets = tail.match(AFTER.MEETS) if not group.plain and group.mentions[0].kind == LABEL else None
    return (WEAK, "stated") if meets and not AFTER.MISMATCH.search(meets[0]) else None
