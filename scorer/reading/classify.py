"""What a sentence does with what it names: states it as the answer, rejects it, supposes it, or only mentions it."""

from __future__ import annotations

from scorer.reading import asides, cues
from scorer.reading.context import Context
from scorer.reading.groups import Group
from scorer.reading.mentions import LABEL, TEXT, is_number
from scorer.reading.screen import Seen

FIRM, WEAK, REJECTED, NAMED, SUPPOSED, LED, ALSO = "firm", "weak", "rejected", "named", "supposed", "led", "also"
ASIDE = "aside"
"""Said of another thing: neither the answer nor denied."""

_CUES = (cues.BOXED, cues.ANSWER, cues.CHOOSE, cues.INSTEAD, cues.THEREFORE)
_REASONS = ("boxed", "stated", "chosen", "corrected", "concluded")


def classify(text: str, group: Group, here: Context) -> tuple[str, str]:
    """Returns what a group's sentence does with it, and how that was said."""
    lead, tail, clause = here.lead, here.tail, here.clause
    plain = all(mention.plain for mention in group.mentions)
    if lead.search(cues.BOXED):
        return FIRM, "boxed"
    if lead.text.endswith("[x] "):
        return FIRM, "marked"
    if lead.text.endswith("[] "):
        return REJECTED, ""
    if group.mentions[0].kind == TEXT and lead.text.endswith("= "):
        return FIRM, "concluded"
    if lead.search(cues.ONLY):
        return FIRM, "stated"
    if lead.search(cues.ALL_BUT):
        return (FIRM if tail.match(cues.WRONG) else REJECTED), "stated"
    if here.line_after.match(cues.NO):
        return REJECTED, ""
    if here.line_after.match(cues.YES):
        return FIRM, "marked"
    if len(group.values) == 1 and "✗" in here.line_before and asides.STRUCK.fullmatch(here.line_before):
        return REJECTED, ""
    if len(group.values) == 1 and "✓" in here.line_before and asides.TICKED.fullmatch(here.line_before):
        return FIRM, "marked"
    if len(group.values) == 1 and group.mentions[0].kind == LABEL and cues.BEFORE.fullmatch(here.line_before):
        if cues.CROSSED.search(here.line_after.text):
            return REJECTED, ""
        if cues.MARKED.search(here.line_after.text):
            return FIRM, "marked"
    if tail.match(cues.GOAL) and lead.search(cues.ORIGIN):
        return NAMED, ""
    if group.mentions[0].kind == TEXT:
        status = _aside(text, group, here)
        if status:
            return status, "concluded"
    if lead.search(cues.NOT):
        return REJECTED, ""
    if tail.match(cues.NOT_BELONGING) and not lead.text.strip():
        return WEAK, "stated"
    if tail.match(cues.WRONG):
        return REJECTED, ""
    if cues.IF_FIRST.match(lead.text) and cues.WERE.match(tail.text):
        return SUPPOSED, ""
    if "so " in lead.text and lead.search(cues.LIKEWISE):
        return (REJECTED if lead.search(cues.NEGATED) else ALSO), "likewise"
    if tail.match(cues.ALSO):
        return ALSO, ""
    asks = here.question and bool(lead.match(cues.INVERTED))
    cue, reason = _cue(clause)
    if cue is None and clause is not lead:
        cue, reason = _cue(lead)
        if cue is not None and cues.negates(lead.piece(lead.text[cue:])):
            return REJECTED, ""
    elif cue is not None and reason != "corrected" and cues.negates(clause.piece(clause.text[cue:])):
        return REJECTED, ""
    if cue is not None and group.article and (reason == "concluded" or (group.values == ["I"] and reason != "stated")):
        return NAMED, ""
    if (
        cue is not None
        and reason in ("chosen", "corrected", "concluded")
        and group.mentions[-1].kind == LABEL
        and tail.match(cues.SUBJECT)
        and not (reason == "concluded" and tail.match(cues.CLOSES))
    ):
        cue = None
    if cue is not None:
        if clause.search(cues.GOVERNS) and reason != "corrected":
            return REJECTED, ""
        if clause.search(cues.BAD):
            return SUPPOSED, ""
        if asks or tail.match(cues.IF) or cues.supposes(clause) or lead.search(cues.EXAMPLE):
            return SUPPOSED, ""
        return FIRM, reason
    if here.question and lead.match(cues.PERHAPS):
        return WEAK, "stated"
    if here.question or cues.supposes(clause):
        return SUPPOSED, ""
    if clause.piece(clause.text.rsplit(": ", 1)[-1]).search(cues.NEGATED):
        return REJECTED, ""
    if tail.match(cues.SOLE_TAIL) or (lead.search(cues.SOLE) and tail.match(cues.SOLELY)):
        return WEAK, "stated"
    if not plain or not lead.text.strip() or lead.match(cues.AMONG):
        if tail.match(cues.RIGHT) and not tail.match(cues.IF):
            return (SUPPOSED if lead.search(asides.CONCEDES) and tail.match(asides.SEEMS) else FIRM), "stated"
        fits = tail.match(cues.FITS)
        if fits and not cues.HALF.search(fits["rest"]):
            return WEAK, "stated"
    meets = tail.match(cues.MEETS) if not plain and group.mentions[0].kind == LABEL else None
    if meets and not cues.MISMATCH.search(meets[0]):
        return WEAK, "stated"
    if lead.search(cues.LED) and not tail.match(cues.SUBJECT):
        if cues.supposes(clause) or (cues.supposes(lead) and not cues.WHENEVER.search(lead.text)):
            return SUPPOSED, ""
        return LED, "concluded"
    if lead.search(cues.MAYBE) and not clause.search(cues.GOVERNS) and not lead.search(cues.LIKENED):
        return WEAK, "stated"
    return NAMED, ""


def _aside(text: str, group: Group, here: Context) -> str:
    """Returns what becomes of an option's words that are said of another thing; "" if they are not."""
    if any(here.lead.search(words) for words in (asides.OTHERS, asides.PARTLY, asides.RUNNER_UP)):
        return ASIDE
    if here.tail.match(asides.WOULD):
        return ASIDE
    if here.tail.match(asides.GROUND) and here.lead.search(asides.BACKDROP):
        return ASIDE
    if not is_number(text, group.mentions[0]):
        return ""
    if here.lead.search(asides.BOUND):
        return SUPPOSED
    return FIRM if len(group.values) == 1 and here.lead.search(asides.TOTAL) else ""


def _cue(lead: Seen) -> tuple[int | None, str]:
    for pattern, reason in zip(_CUES, _REASONS, strict=True):
        match = lead.search(pattern)
        if match:
            return match.start(), reason
    match = lead.search(cues.ANSWER_NOUN)
    if match:
        return match.start(), "stated"
    match = lead.search(cues.IDENTIFIES)
    return (match.start(), "concluded") if match else (None, "")
