"""What a sentence does with what it names: states it as the answer, rejects it, supposes it, or only mentions it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from lyncean.reasons import Reason
from scorer.reading.context import LEAD, LEADS, TAIL, TAILS, Context, context
from scorer.reading.lexicon import AFTER, ASIDES, BEFORE
from scorer.reading.mentions import LABEL, TEXT, Group, Mention, groups, is_number
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


SUM, LIKEWISE, ANOTHER = "sum", "likewise", "another"
"""How a number is stated that others come to ("3 + 9 = 12"), and how another answer is."""

Status = tuple[Stance, str]
"""The stance to something named, and how it is said: a reason, or one of the words above."""

_REJECTED, _SUPPOSED, _NAMED = (Stance.REJECTED, ""), (Stance.SUPPOSED, ""), (Stance.NAMED, "")
_STATED, _MARKED, _PREFERRED = (
    (Stance.FIRM, Reason.STATED),
    (Stance.FIRM, Reason.MARKED),
    (Stance.WEAK, Reason.STATED),
)
_OF_ANOTHER = (Stance.ASIDE, Reason.CONCLUDED)
_CUES = (
    *(
        (BEFORE.BOXED, Reason.BOXED),
        (BEFORE.ANSWER, Reason.STATED),
        (BEFORE.CHOOSE, Reason.CHOSEN),
        (BEFORE.INSTEAD, Reason.CORRECTED),
    ),
    *((BEFORE.THEREFORE, Reason.CONCLUDED), (BEFORE.ANSWER_NOUN, Reason.STATED), (BEFORE.IDENTIFIES, Reason.CONCLUDED)),
)

# A text in which none of these may be found need not be asked for each.
_OTHER_LEAD = LEADS.bits(*ASIDES.marked("lead"), BEFORE.ORIGIN)
_OTHER_TAIL = TAILS.bits(ASIDES.WOULD, ASIDES.GROUND, ASIDES.EDGE)
_CUED = LEADS.bits(*(pattern for pattern, _ in _CUES))
_PRAISES = TAILS.bits(AFTER.SOLE_TAIL, AFTER.SOLELY, AFTER.RIGHT, AFTER.FITS, AFTER.MEETS)
_LEANS = LEADS.bits(BEFORE.LED, BEFORE.MATCHES, BEFORE.MAYBE)
_LEFT = re.compile(r"\bleft\b", re.IGNORECASE)
"""The right one, beside a left one, is not the correct one."""
NEAR = 160
"""Code points before and behind a name in which a left one is looked for."""
_VERB = re.compile(r"[)\s]*(?:is|was|can|could|must|would|does)(?:n't|not)?\b", re.IGNORECASE)
"""Behind a box: its sentence goes on, where often the next one begins without a full stop before it."""
_TRUTHS = frozenset(("true", "false", "correct", "incorrect", "right", "wrong"))
_TICKS = ("✓", "✗")
_RELATIONS = tuple("=<>+≈≥≤≠")


def supposes(clause: Seen) -> bool:
    """Returns whether a clause supposes rather than states."""
    if not clause.may(BEFORE.HYPOTHETICAL):
        return False
    return bool(BEFORE.HYPOTHETICAL.search(BEFORE.LOOKED.sub(" ", BEFORE.MINE.sub(" ", clause.text))))


def negates(words: Seen) -> bool:
    """Returns whether a noun's sentence denies it, other than by what singles it out: "the one that does not fit"."""
    return words.may(BEFORE.NEGATED) and bool(BEFORE.NEGATED.search(BEFORE.ODD.sub(" ", words.text)))


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
    lead = here.lead
    if lead.search(BEFORE.BOXED):
        return (
            Stance.REJECTED if _VERB.match(here.tail.text) and here.tail.match(AFTER.WRONG) else Stance.FIRM
        ), Reason.BOXED
    if lead.text.endswith("[x] "):
        return _MARKED
    if lead.text.endswith("[] "):
        return _REJECTED
    if group.mentions[0].kind == TEXT and lead.text.endswith("= "):
        return Stance.FIRM, SUM
    if lead.search(BEFORE.ONLY):
        return _STATED
    if lead.search(BEFORE.ALL_BUT):
        return (Stance.FIRM if here.tail.match(AFTER.WRONG) else Stance.REJECTED), Reason.STATED
    if here.line_after.match(AFTER.NO):
        return _REJECTED
    if here.line_after.match(AFTER.YES):
        return _MARKED
    return _by_line(group, here) if len(group.values) == 1 else None


def _by_line(group: Group, here: Context) -> Status | None:
    """Returns the status of what stands behind a tick or a cross, or begins a line that ends in a verdict."""
    before, after = here.line_before, here.line_after.text
    if "✗" in before and ASIDES.STRUCK.fullmatch(before):
        return _REJECTED
    if "✓" in before and ASIDES.TICKED.fullmatch(before):
        return _MARKED
    heads = group.mentions[0].kind == LABEL or (after.startswith(":") and after.rstrip(" .")[-1:] in _TICKS)
    if heads and BEFORE.LINE_START.fullmatch(before):
        if AFTER.CROSSED.search(after):
            return _REJECTED
        if AFTER.MARKED.search(after):
            return _MARKED
    return None


def _of_another(text: str, group: Group, here: Context) -> Status | None:
    """Returns the status of what is said of another thing: where a movement starts, what the others are, a bound."""
    lead, tail = here.lead, here.tail
    if not (lead.found & _OTHER_LEAD or tail.found & _OTHER_TAIL):
        return None
    if tail.match(BEFORE.GOAL) and lead.search(BEFORE.ORIGIN):
        return _NAMED
    if group.mentions[0].kind != TEXT:
        return None
    if any(lead.search(words) for words in (ASIDES.OTHERS, ASIDES.PARTLY, ASIDES.RUNNER_UP)):
        return _OF_ANOTHER
    if tail.match(ASIDES.WOULD):
        return _OF_ANOTHER
    if (tail.match(ASIDES.GROUND) and lead.search(ASIDES.BACKDROP)) or (
        tail.match(ASIDES.EDGE) and lead.search(ASIDES.WITH)
    ):
        return _OF_ANOTHER
    if not is_number(text, group.mentions[0]):
        return None
    if lead.search(ASIDES.BOUND):
        return Stance.SUPPOSED, Reason.CONCLUDED
    return (Stance.FIRM, SUM) if len(group.values) == 1 and lead.search(ASIDES.TOTAL) else None


def _denied(here: Context) -> Status | None:
    """Returns the status of what is denied, or is as possible as another thing."""
    lead, tail = here.lead, here.tail
    if lead.search(BEFORE.NOT):
        return _REJECTED
    if tail.match(AFTER.NOT_BELONGING) and not lead.text.strip():
        return _PREFERRED
    if tail.match(AFTER.WRONG):
        return _REJECTED
    if (lead.match(BEFORE.IF_FIRST) and BEFORE.WERE.match(tail.text)) or (
        tail.match(AFTER.IF) and ("would be " in here.clause.text or BEFORE.WERE.match(tail.text))
    ):
        return _SUPPOSED
    if "so " in lead.text and lead.search(BEFORE.LIKEWISE):
        return (Stance.REJECTED if lead.search(BEFORE.NEGATED) else Stance.ALSO), LIKEWISE
    if tail.match(AFTER.ALSO):
        return Stance.ALSO, ""
    if tail.match(AFTER.AT_FIRST):
        return _SUPPOSED
    return (Stance.ALSO, ANOTHER) if lead.search(BEFORE.ANOTHER_IS) else None


def _announced(text: str, group: Group, here: Context) -> Status | None:
    """Returns the status of what the words before it announce as the answer: "so it must be", "I would go with"."""
    lead, tail, clause = here.lead, here.tail, here.clause
    reckoned = tail.match(AFTER.VARIABLE) or (lead.text[-2:].strip() in _RELATIONS and BEFORE.RELATED.search(lead.text))
    if reckoned and _bare_letter(group) and not BEFORE.LABELLED.search(lead.text):
        return Stance.ASIDE, ""
    said = clause
    cue, reason = _cue(clause)
    if cue is None and clause is not lead:
        said = lead
        cue, reason = _cue(lead)
        if cue is not None and negates(lead.piece(lead.text[cue:])):
            return _REJECTED
    elif cue is not None and reason != Reason.CORRECTED and negates(clause.piece(clause.text[cue:])):
        return _REJECTED
    if cue is None or (said.text[cue : cue + 6].lower() == "right " and _LEFT.search(_near(text, group))):
        return None
    if group.article and (reason == Reason.CONCLUDED or (group.values == ["I"] and reason != Reason.STATED)):
        return _NAMED
    if (
        reason in (Reason.CHOSEN, Reason.CORRECTED, Reason.CONCLUDED)
        and group.mentions[-1].kind == LABEL
        and tail.match(AFTER.SUBJECT)
        and not (reason == Reason.CONCLUDED and tail.match(AFTER.CLOSES))
    ):
        return None
    if clause.search(BEFORE.GOVERNS) and reason != "corrected":
        return _REJECTED
    if clause.search(BEFORE.BAD):
        return _SUPPOSED
    if here.question and _asks(here):
        return _SUPPOSED
    if "would" in clause.text and lead.match(BEFORE.HAD):
        return _SUPPOSED
    if tail.match(AFTER.IF) or tail.match(AFTER.DISOWNED) or supposes(clause) or lead.search(BEFORE.EXAMPLE):
        return _SUPPOSED
    if tail.match(ASIDES.IN_PART) and text[slice(*group.span)].lower() in _TRUTHS:
        return (Stance.ASIDE if ASIDES.YET.search(tail.text) else Stance.NAMED), ""
    return Stance.FIRM, reason


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
    for pattern, reason in _CUES if lead.found & _CUED else ():
        match = lead.search(pattern)
        if match:
            return match.start(), reason
    return None, ""


def _unannounced(group: Group, here: Context) -> Status | None:
    """Returns the status of what a sentence asks for, supposes, praises or arrives at."""
    lead, clause = here.lead, here.clause
    if here.question and lead.match(BEFORE.PERHAPS):
        return _PREFERRED
    if here.question:
        return _SUPPOSED
    if supposes(clause):
        return _SUPPOSED
    if clause.piece(clause.text.rsplit(": ", 1)[-1]).search(BEFORE.NEGATED):
        return _REJECTED
    praised = _praised(group, here) if here.tail.found & _PRAISES else None
    if praised or not lead.found & _LEANS:
        return praised
    if lead.search(BEFORE.LED) and not here.tail.match(AFTER.SUBJECT):
        if supposes(clause) or (supposes(lead) and not BEFORE.WHENEVER.search(lead.text)):
            return _SUPPOSED
        return Stance.LED, Reason.CONCLUDED
    matches = lead.search(BEFORE.MATCHES) and not _bare_letter(group)
    if (matches or lead.search(BEFORE.MAYBE)) and not clause.search(BEFORE.GOVERNS) and not lead.search(BEFORE.LIKENED):
        return _PREFERRED
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
            return (
                Stance.SUPPOSED if lead.search(ASIDES.CONCEDES) and tail.match(ASIDES.SEEMS) else Stance.FIRM
            ), Reason.STATED
        fits = tail.match(AFTER.FITS)
        if fits and not AFTER.HALF.search(fits["rest"]):
            return _PREFERRED
    meets = tail.match(AFTER.MEETS) if not group.plain and group.mentions[0].kind == LABEL else None
    return _PREFERRED if meets and not AFTER.MISMATCH.search(meets[0]) else None


MOST = 1600
"""Things named that are looked at: the last so many, and an eighth of that at the beginning."""


class Occurrence(NamedTuple):
    """Things named in one breath, and what their sentence does with them.

    Attributes:
        group: What is named.
        stance: What the sentence does with it.
        reason: How that was said.
        here: The words around it.
    """

    group: Group
    stance: Stance
    reason: str
    here: Context


class Occurrences:
    """What the sentences of a text do with what they name, each looked at when it is asked for.

    Args:
        text: The folded text.
        mentions: Everything it names, in order, without overlap.
        order: The labels in their order, by which a list of the options is recognized.
    """

    def __init__(self, text: str, mentions: Sequence[Mention], order: Sequence[str]) -> None:
        self._text = text
        self._following = dict(itertools.pairwise(order))
        found = groups(text, mentions, two=len(order) == 2)
        self._groups = found if len(found) <= MOST else found[:-MOST][: MOST // 8] + found[-MOST:]
        self._apart: list[Occurrence | None] = [None] * len(self._groups)
        self._known: dict[tuple[str, str, str, int], tuple[Stance, str, Context]] = {}

    def backward(self) -> Iterator[Occurrence]:
        """Yields every group from the last on, judged apart from the others."""
        return map(self._judged_apart, range(len(self._groups) - 1, -1, -1))

    def all(self) -> list[Occurrence]:
        """Returns every group in order, judged in view of those before it."""
        judged: list[Occurrence] = []
        for place in range(len(self._groups)):
            apart = self._judged_apart(place)
            judged.append(self._closing(place, _after(self._text, apart, judged)) if depends(apart) else apart)
        return judged

    def begins_line(self, judged: Occurrence) -> bool:
        """Returns whether a group may be an answer by beginning its line."""
        group, stance, _, here = judged
        return (
            len(group.values) == 1
            and stance not in (Stance.REJECTED, Stance.ASIDE)
            and bool(BEFORE.LINE_START.fullmatch(here.line_before))
            and (alone(here) or _leads(self._text, group, here, self._following.get(group.values[0], "")))
        )

    def _judged_apart(self, place: int) -> Occurrence:
        judged = self._apart[place]
        if judged is None:
            group = self._groups[place]
            judged = self._apart[place] = self._closing(place, Occurrence(group, *self._classified(group)))
        return judged

    def _classified(self, group: Group) -> tuple[Stance, str, Context]:
        """Returns what a group's sentence does with it, how, and the words around it; the same words are read once."""
        before = self._text[max(group.first - LEAD, 0) : group.first]
        behind = self._text[group.last : group.last + TAIL]
        said = before, self._text[group.first : group.last], behind, sum([name.plain for name in group.mentions])
        if said not in self._known:
            here = context(self._text, group)
            self._known[said] = (*stance_of(self._text, group, here), here)
        return self._known[said]

    def _closing(self, place: int, judged: Occurrence) -> Occurrence:
        """Returns the last group as stated where it is a label that its sentence arrives at: "the lightest is C"."""
        mention = judged.group.mentions[0]
        closes = (
            judged.stance == Stance.NAMED
            and place == len(self._groups) - 1
            and mention.kind == LABEL
            and not mention.plain
            and judged.here.lead.search(BEFORE.FINALLY)
        )
        return judged._replace(stance=Stance.FIRM, reason=Reason.CONCLUDED) if closes else judged


def depends(judged: Occurrence) -> bool:
    """Returns whether what becomes of a group depends on those before it."""
    return judged.stance in (Stance.LED, Stance.ALSO) or (judged.stance == Stance.FIRM and len(judged.group.values) > 1)


def alone(here: Context) -> bool:
    """Returns whether nothing but signs stands beside what is named on its line."""
    return bool(BEFORE.LINE_START.fullmatch(here.line_before) and BEFORE.BLANK.fullmatch(here.line_after.text))


def _after(text: str, apart: Occurrence, judged: list[Occurrence]) -> Occurrence:
    """Returns a group judged in view of those before it."""
    group, stance, reason, here = apart
    before = judged[-1] if judged else None
    if stance == Stance.LED:
        stance = (
            Stance.FIRM
            if _nothing_leads(group, here, judged) and not BEFORE.ARTICLE.search(here.lead.text)
            else Stance.NAMED
        )
    if stance == Stance.ALSO and reason == LIKEWISE and before and before.stance == Stance.REJECTED:
        stance = Stance.REJECTED  # "A is wrong, and so is B."
    several = stance == Stance.FIRM and len(group.values) > 1
    if several and before and before.stance == Stance.FIRM and text[before.group.last : group.first].strip() == ":":
        stance = Stance.NAMED  # "The odd one out is C: A, B and D are symmetric."
    return apart._replace(stance=stance)


def _nothing_leads(group: Group, here: Context, judged: list[Occurrence]) -> bool:
    """Whether nothing named before in the sentence is what leads to the group."""
    start = group.first - len(here.lead.text)
    for other, stance, _, _ in reversed(judged[-8:]):
        if other.first < start:
            return True
        number = other.mentions[0].plain and other.values[0].isdigit()
        if stance != Stance.REJECTED and other.values != group.values and not number:
            return False
    return True


def _leads(text: str, group: Group, here: Context, following: str) -> bool:
    if here.line_after.text.startswith(")") and AFTER.SUBJECT.match(here.line_after.text[1:]):
        return False  # "Option C (anger) would require a frown"
    if group.mentions[0].kind == TEXT and len(group.mentions) > 1 and here.line_after.match(AFTER.SUBJECT):
        return False  # "The woman (B) is to the left"
    if len(group.mentions) > 1 and BEFORE.EQUATES.search(text, group.mentions[0].last, group.mentions[1].first):
        return False  # "Option A is happiness."
    next_item = rf"[.;,] (?:[A-Za-z]{{1,12}} )?[\"'(]?{re.escape(following)}[\"']?[):]"
    if following and re.search(next_item, here.line_after.text):
        return False  # "Option A: 3 dots. Option B: 4 dots."
    if BEFORE.SCORED.match(here.line_after.text):
        return False  # "Red: 60%, blue: 40%"
    if BEFORE.FOLLOWED.match(here.line_after.text):
        return not BEFORE.LISTED.match(here.line_after.text)
    # "(B) The glove is woven" answers; "A) shiny. B) soft" lists.
    return text[group.last - 1] in ")]" and not BEFORE.NEXT_ITEM.search(here.line_after.text)
