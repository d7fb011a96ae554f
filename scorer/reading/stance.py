"""What a sentence does with what it names: states it as the answer, rejects it, supposes it, or only mentions it."""

from __future__ import annotations

import re

from scorer.reading.context import LEADS, TAILS, Context
from scorer.reading.lexicon import after as tails
from scorer.reading.lexicon import asides
from scorer.reading.lexicon import before as cues
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
    *((cues.BOXED, "boxed"), (cues.ANSWER, "stated"), (cues.CHOOSE, "chosen"), (cues.INSTEAD, "corrected")),
    *((cues.THEREFORE, "concluded"), (cues.ANSWER_NOUN, "stated"), (cues.IDENTIFIES, "concluded")),
)

# Of leads and tails in which none of these may be found, the functions below need not ask for each.
_SINGLES = LEADS.bits(cues.BOXED, cues.ONLY, cues.ALL_BUT)
_VERDICT = TAILS.bits(tails.NO, tails.YES)
_OTHER_LEAD = LEADS.bits(
    asides.OTHERS,
    asides.PARTLY,
    asides.RUNNER_UP,
    asides.BACKDROP,
    asides.BOUND,
    asides.TOTAL,
    asides.WITH,
    cues.ORIGIN,
)
_OTHER_TAIL = TAILS.bits(asides.WOULD, asides.GROUND, asides.EDGE)
_DENIES = TAILS.bits(tails.NOT_BELONGING, tails.WRONG, tails.AT_FIRST, tails.ALSO)
_ANOTHER = LEADS.bits(cues.ANOTHER_IS)
_CONDITION = TAILS.bits(tails.IF)
_CUED = LEADS.bits(*(pattern for pattern, _ in _CUES))
_SUPPOSES = LEADS.bits(cues.HYPOTHETICAL, cues.NEGATED)
_PRAISES = TAILS.bits(tails.SOLE_TAIL, tails.SOLELY, tails.RIGHT, tails.FITS, tails.MEETS)
_LEFT = re.compile(r"\bleft\b", re.IGNORECASE)
"""The right one, beside a left one, is not the correct one."""
NEAR = 160
"""Code points before and behind a name in which a left one is looked for."""
_VERB = re.compile(r"[)\s]*(?:is|was|can|could|must|would|does)(?:n't|not)?\b", re.IGNORECASE)
"""Behind a box: its sentence goes on, where often the next one begins without a full stop before it."""
_TICKS = ("✓", "✗")
_RELATIONS = tuple("=<>+≈≥≤≠")
_LEANS = LEADS.bits(cues.LED, cues.MATCHES, cues.MAYBE)


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
    if single and lead.search(cues.BOXED):
        return (REJECTED if _VERB.match(here.tail.text) and here.tail.match(tails.WRONG) else FIRM), "boxed"
    if lead.text.endswith("[x] "):
        return FIRM, "marked"
    if lead.text.endswith("[] "):
        return REJECTED, ""
    if group.mentions[0].kind == TEXT and lead.text.endswith("= "):
        return FIRM, SUM
    if single and lead.search(cues.ONLY):
        return FIRM, "stated"
    if single and lead.search(cues.ALL_BUT):
        return (FIRM if here.tail.match(tails.WRONG) else REJECTED), "stated"
    if here.line_after.found & _VERDICT:
        if here.line_after.match(tails.NO):
            return REJECTED, ""
        if here.line_after.match(tails.YES):
            return FIRM, "marked"
    return _by_line(group, here) if len(group.values) == 1 else None


def _by_line(group: Group, here: Context) -> Status | None:
    """Returns the status of what stands behind a tick or a cross, or begins a line that ends in a verdict."""
    before, after = here.line_before, here.line_after.text
    if "✗" in before and asides.STRUCK.fullmatch(before):
        return REJECTED, ""
    if "✓" in before and asides.TICKED.fullmatch(before):
        return FIRM, "marked"
    heads = group.mentions[0].kind == LABEL or (after.startswith(":") and after.rstrip(" .")[-1:] in _TICKS)
    if heads and cues.BEFORE.fullmatch(before):
        if tails.CROSSED.search(after):
            return REJECTED, ""
        if tails.MARKED.search(after):
            return FIRM, "marked"
    return None


def _of_another(text: str, group: Group, here: Context) -> Status | None:
    """Returns the status of what is said of another thing: where a movement starts, what the others are, a bound."""
    lead, tail = here.lead, here.tail
    if not (lead.found & _OTHER_LEAD or tail.found & _OTHER_TAIL):
        return None
    if tail.match(cues.GOAL) and lead.search(cues.ORIGIN):
        return NAMED, ""
    if group.mentions[0].kind != TEXT:
        return None
    if any(lead.search(words) for words in (asides.OTHERS, asides.PARTLY, asides.RUNNER_UP)):
        return ASIDE, "concluded"
    if tail.match(asides.WOULD):
        return ASIDE, "concluded"
    if (tail.match(asides.GROUND) and lead.search(asides.BACKDROP)) or (
        tail.match(asides.EDGE) and lead.search(asides.WITH)
    ):
        return ASIDE, "concluded"
    if not is_number(text, group.mentions[0]):
        return None
    if lead.search(asides.BOUND):
        return SUPPOSED, "concluded"
    return (FIRM, SUM) if len(group.values) == 1 and lead.search(asides.TOTAL) else None


def _denied(here: Context) -> Status | None:
    """Returns the status of what is denied, or is as possible as another thing."""
    lead, tail = here.lead, here.tail
    if lead.search(cues.NOT):
        return REJECTED, ""
    denies = tail.found & _DENIES
    if denies and tail.match(tails.NOT_BELONGING) and not lead.text.strip():
        return WEAK, "stated"
    if denies and tail.match(tails.WRONG):
        return REJECTED, ""
    if (lead.match(cues.IF_FIRST) and cues.WERE.match(tail.text)) or (
        tail.found & _CONDITION
        and tail.match(tails.IF)
        and ("would be " in here.clause.text or cues.WERE.match(tail.text))
    ):
        return SUPPOSED, ""
    if "so " in lead.text and lead.search(cues.LIKEWISE):
        return (REJECTED if lead.search(cues.NEGATED) else ALSO), "likewise"
    if denies and tail.match(tails.ALSO):
        return ALSO, ""
    if denies and tail.match(tails.AT_FIRST):
        return SUPPOSED, ""
    return (ALSO, "another") if lead.found & _ANOTHER and lead.search(cues.ANOTHER_IS) else None


def _announced(text: str, group: Group, here: Context) -> Status | None:
    """Returns the status of what the words before it announce as the answer: "so it must be", "I would go with"."""
    lead, tail, clause = here.lead, here.tail, here.clause
    reckoned = tail.match(tails.VARIABLE) or (lead.text[-2:].strip() in _RELATIONS and cues.RELATED.search(lead.text))
    if reckoned and _bare_letter(group) and not cues.LABELLED.search(lead.text):
        return ASIDE, ""
    said = clause
    cue, reason = _cue(clause)
    if cue is None and clause is not lead:
        said = lead
        cue, reason = _cue(lead)
        if cue is not None and cues.negates(lead.piece(lead.text[cue:])):
            return REJECTED, ""
    elif cue is not None and reason != "corrected" and cues.negates(clause.piece(clause.text[cue:])):
        return REJECTED, ""
    if cue is None or (said.text[cue : cue + 6].lower() == "right " and _LEFT.search(_near(text, group))):
        return None
    if group.article and (reason == "concluded" or (group.values == ["I"] and reason != "stated")):
        return NAMED, ""
    if (
        reason in ("chosen", "corrected", "concluded")
        and group.mentions[-1].kind == LABEL
        and tail.match(tails.SUBJECT)
        and not (reason == "concluded" and tail.match(tails.CLOSES))
    ):
        return None
    if clause.search(cues.GOVERNS) and reason != "corrected":
        return REJECTED, ""
    if clause.search(cues.BAD):
        return SUPPOSED, ""
    if here.question and _asks(here):
        return SUPPOSED, ""
    if "would" in clause.text and lead.match(cues.HAD):
        return SUPPOSED, ""
    if tail.match(tails.IF) or tail.match(tails.DISOWNED) or cues.supposes(clause) or lead.search(cues.EXAMPLE):
        return SUPPOSED, ""
    if tail.match(asides.IN_PART) and text[slice(*group.span)].lower() in asides.TRUTHS:
        return (ASIDE if asides.YET.search(tail.text) else NAMED), ""
    return FIRM, reason


def _asks(here: Context) -> bool:
    """Whether a sentence that ends in a question mark asks, and does not say its answer with a doubt."""
    last = here.lead.text.rpartition(": ")[2]
    inverted = here.lead.match(cues.INVERTED) or cues.INVERTED.match(last)
    return bool(inverted or tails.DOUBTED.match(here.line_after.text) or tails.ASKED.match(here.line_after.text))


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
    if here.question and lead.match(cues.PERHAPS):
        return WEAK, "stated"
    if here.question:
        return SUPPOSED, ""
    if clause.found & _SUPPOSES:
        if cues.supposes(clause):
            return SUPPOSED, ""
        if clause.piece(clause.text.rsplit(": ", 1)[-1]).search(cues.NEGATED):
            return REJECTED, ""
    praised = _praised(group, here) if here.tail.found & _PRAISES else None
    if praised or not lead.found & _LEANS:
        return praised
    if lead.search(cues.LED) and not here.tail.match(tails.SUBJECT):
        if cues.supposes(clause) or (cues.supposes(lead) and not cues.WHENEVER.search(lead.text)):
            return SUPPOSED, ""
        return LED, "concluded"
    matches = lead.search(cues.MATCHES) and not _bare_letter(group)
    if (matches or lead.search(cues.MAYBE)) and not clause.search(cues.GOVERNS) and not lead.search(cues.LIKENED):
        return WEAK, "stated"
    return None


def _praised(group: Group, here: Context) -> Status | None:
    """Returns the status of what the words behind it commend: "is the correct answer", "fits the pattern best"."""
    lead, tail = here.lead, here.tail
    if tail.match(tails.SOLE_TAIL) or (lead.search(cues.SOLE) and tail.match(tails.SOLELY)):
        return WEAK, "stated"
    if not group.plain or not lead.text.strip() or lead.match(cues.AMONG):
        if tail.match(tails.RIGHT):
            if tail.match(tails.IF) or tail.match(tails.DISOWNED):
                return SUPPOSED, ""
            return (SUPPOSED if lead.search(asides.CONCEDES) and tail.match(asides.SEEMS) else FIRM), "stated"
        fits = tail.match(tails.FITS)
        if fits and not tails.HALF.search(fits["rest"]):
            return WEAK, "stated"
    meets = tail.match(tails.MEETS) if not group.plain and group.mentions[0].kind == LABEL else None
    return (WEAK, "stated") if meets and not tails.MISMATCH.search(meets[0]) else None
