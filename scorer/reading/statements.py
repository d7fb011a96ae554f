"""Reads what an answer states about the things it names.

Everything named is looked at in its own sentence: is it stated as the answer, rejected,
supposed, or only mentioned? The last statement decides. Where nothing is stated, or several
answers are, nothing is read: a wrong reading is worse than none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scorer.reading import cues
from scorer.reading.groups import Group, groups
from scorer.reading.mentions import LABEL, TEXT, Mention

MOST = 1600
"""Things named that are looked at: the last so many, and an eighth of that at the beginning."""

LEAD, TAIL = 160, 200
"""Code points looked at before and after something named, at most."""

_CUES = (cues.BOXED, cues.ANSWER, cues.CHOOSE, cues.INSTEAD, cues.THEREFORE)
_REASONS = ("boxed", "stated", "chosen", "corrected", "concluded")


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read.

    Attributes:
        value: The value stated; "" where nothing was.
        reason: How it was read, or why nothing was.
        span: Where it stands in the folded text.
    """

    value: str
    reason: str
    span: tuple[int, int] = (0, 0)


FIRM, WEAK, REJECTED, NAMED, SUPPOSED, LED, ALSO = "firm", "weak", "rejected", "named", "supposed", "led", "also"


@dataclass(frozen=True, slots=True)
class Context:
    """The words around a group within its sentence."""

    lead: str
    clause: str
    tail: str
    line_before: str
    line_after: str
    question: bool


def context(text: str, group: Group) -> Context:
    """Returns the words around a group within its sentence."""
    low = max(group.first - LEAD, 0)
    before = text[low : group.first]
    newline = before.rfind("\n")
    line_before = before[newline + 1 :]
    lead = _sentence(line_before)
    if newline >= 0 and not line_before.strip(" \"'(["):
        lead = _sentence(before[:newline][before[:newline].rfind("\n") + 1 :].rstrip()) + " "
        if not lead.rstrip().endswith((":", "is", "=")) and not cues.ANSWER_NOUN.search(lead):
            lead = ""
    after = text[group.last : group.last + TAIL]
    line_after = after.split("\n", 1)[0]
    stop = cues.SENTENCE_STOP.search(line_after)
    tail = line_after[: stop.start()] if stop else line_after
    question = bool(stop and "?" in stop[0])
    breaks = [match.start() for match in cues.CLAUSE.finditer(lead)]
    clause = lead[breaks[-1] :].lstrip(",; ") if breaks else lead
    return Context(lead, clause, tail, line_before, line_after, question)


def _sentence(line: str) -> str:
    start = 0
    for match in cues.SENTENCE_END.finditer(line):
        start = match.end()
    return line[start:]


def classify(group: Group, here: Context) -> tuple[str, str]:
    """Returns what a group's sentence does with it, and how that was said."""
    lead, tail, clause = here.lead, here.tail, here.clause
    plain = all(mention.plain for mention in group.mentions)
    if cues.BOXED.search(lead):
        return FIRM, "boxed"
    if lead.endswith("[x] "):
        return FIRM, "marked"
    if lead.endswith("[] "):
        return REJECTED, ""
    if group.mentions[0].kind == TEXT and lead.endswith("= "):
        return FIRM, "concluded"
    if cues.ONLY.search(lead):
        return FIRM, "stated"
    if cues.ALL_BUT.search(lead):
        return (FIRM if cues.WRONG.match(tail) else REJECTED), "stated"
    if cues.NO.match(here.line_after):
        return REJECTED, ""
    if cues.YES.match(here.line_after):
        return FIRM, "marked"
    if len(group.values) == 1 and group.mentions[0].kind == LABEL and cues.BEFORE.fullmatch(here.line_before):
        if cues.CROSSED.search(here.line_after):
            return REJECTED, ""
        if cues.MARKED.search(here.line_after):
            return FIRM, "marked"
    if cues.GOAL.match(tail) and cues.ORIGIN.search(lead):
        return NAMED, ""
    if cues.NOT.search(lead):
        return REJECTED, ""
    if cues.WRONG.match(tail):
        return REJECTED, ""
    if "so " in lead and cues.LIKEWISE.search(lead):
        return (REJECTED if cues.NEGATED.search(lead) else ALSO), ""
    if cues.ALSO.match(tail):
        return ALSO, ""
    asks = here.question and bool(cues.INVERTED.match(lead))
    cue, reason = _cue(clause)
    if cue is None and clause != lead:
        cue, reason = _cue(lead)
        if cue is not None and cues.negates(lead[cue:]):
            return REJECTED, ""
    elif cue is not None and reason != "corrected" and cues.negates(clause[cue:]):
        return REJECTED, ""
    if cue is not None and group.article and (reason == "concluded" or (group.values == ["I"] and reason != "stated")):
        return NAMED, ""
    if (
        cue is not None
        and reason in ("chosen", "corrected", "concluded")
        and group.mentions[-1].kind == LABEL
        and cues.SUBJECT.match(tail)
        and not (reason == "concluded" and cues.CLOSES.match(tail))
    ):
        cue = None
    if cue is not None:
        if cues.GOVERNS.search(clause) and reason != "corrected":
            return REJECTED, ""
        if cues.BAD.search(clause):
            return SUPPOSED, ""
        if asks or cues.IF.match(tail) or cues.supposes(clause) or cues.EXAMPLE.search(lead):
            return SUPPOSED, ""
        return FIRM, reason
    if here.question or cues.supposes(clause):
        return SUPPOSED, ""
    if cues.NEGATED.search(clause.rsplit(": ", 1)[-1]):
        return REJECTED, ""
    if cues.SOLE_TAIL.match(tail) or (cues.SOLE.search(lead) and cues.SOLELY.match(tail)):
        return WEAK, "stated"
    if not plain or not lead.strip():
        if cues.RIGHT.match(tail) and not cues.IF.match(tail):
            return FIRM, "stated"
        fits = cues.FITS.match(tail)
        if fits and not cues.HALF.search(fits["rest"]):
            return WEAK, "stated"
    if cues.LED.search(lead) and not cues.SUBJECT.match(tail):
        if cues.supposes(lead):
            return SUPPOSED, ""
        return LED, "concluded"
    if cues.MAYBE.search(lead) and not cues.GOVERNS.search(clause) and not cues.LIKENED.search(lead):
        return WEAK, "stated"
    return NAMED, ""


def _cue(lead: str) -> tuple[int | None, str]:
    for pattern, reason in zip(_CUES, _REASONS, strict=True):
        match = pattern.search(lead)
        if match:
            return match.start(), reason
    match = cues.ANSWER_NOUN.search(lead)
    if match:
        return match.start(), "stated"
    match = cues.IDENTIFIES.search(lead)
    return (match.start(), "concluded") if match else (None, "")


def _leads(text: str, group: Group, here: Context, following: str) -> bool:
    if here.line_after.startswith(")") and cues.SUBJECT.match(here.line_after[1:]):
        return False  # "Option C (anger) would require a frown"
    if group.mentions[0].kind == TEXT and len(group.mentions) > 1 and cues.SUBJECT.match(here.line_after):
        return False  # "The woman (B) is to the left"
    if len(group.mentions) > 1 and cues.EQUATES.search(text, group.mentions[0].last, group.mentions[1].first):
        return False  # "Option A is happiness."
    if following and re.search(rf"[.;,] (?:[A-Za-z]{{1,12}} )?\(?{re.escape(following)}[):]", here.line_after):
        return False  # "Option A: 3 dots. Option B: 4 dots."
    if cues.FOLLOWED.match(here.line_after):
        return not cues.LISTED.match(here.line_after)
    # "(B) The glove is woven" answers; "A) shiny. B) soft" lists.
    return text[group.last - 1] in ")]" and not cues.NEXT_ITEM.search(here.line_after)


def _bare(here: Context) -> bool:
    return bool(cues.BEFORE.fullmatch(here.line_before) and cues.BLANK.fullmatch(here.line_after))


def read(
    text: str,
    mentions: Sequence[Mention],
    order: Sequence[str],
    lone: Callable[[str, list[tuple[Group, str]]], Reading | None] | None = None,
) -> Reading:
    """Returns the one value that the text states as its answer.

    Args:
        text: The folded text.
        mentions: Everything it names, in order, without overlap.
        order: The labels in their order, by which a list of the options is recognized.
        lone: Reads a text that states nothing from the groups and what became of each.
    """
    judged: list[tuple[Group, str]] = []
    statements: list[tuple[int, Group, str]] = []
    lines: list[tuple[Group, Context, bool]] = []
    following = dict(itertools.pairwise(order))
    seen: dict[tuple[str, str, str, str, bool, int], tuple[str, str]] = {}
    all_groups = groups(text, mentions, two=len(order) == 2)
    for group in all_groups[:-MOST][: MOST // 8] + all_groups[-MOST:]:
        here = context(text, group)
        signature = (
            here.lead,
            here.tail,
            here.line_before,
            here.line_after,
            here.question,
            sum(m.plain for m in group.mentions),
        )
        status = seen.get(signature)
        if status is None:
            status = seen[signature] = classify(group, here)
        what, reason = status
        if what == LED:
            what = FIRM if _nothing_leads(group, here, judged) and not cues.ARTICLE.search(here.lead) else NAMED
        mixed = len(group.values) > 1
        at_line_start = len(group.values) == 1 and bool(cues.BEFORE.fullmatch(here.line_before))
        if (
            at_line_start
            and what != REJECTED
            and (_bare(here) or _leads(text, group, here, following.get(group.values[0], "")))
        ):
            lines.append((group, here, _bare(here)))
        letter = group.mentions[0].kind == LABEL and not group.mentions[0].plain
        if letter and what == NAMED and cues.FINALLY.search(here.lead) and group is all_groups[-1]:
            what, reason = FIRM, "concluded"
        if what == FIRM and not (mixed and cues.LOOKING.search(here.clause)):
            statements.append((group.first, group, reason))
        judged.append((group, what))
    statements += [
        (group.first, group, "bare")
        for group in _line_answers(text, lines, order, {v for _, g, _ in statements for v in g.values})
    ]
    if judged and _ends_alone(text, judged):
        statements.append((judged[-1][0].first, judged[-1][0], "bare"))
    statements.sort(key=lambda item: item[0])
    return _decide(text, statements, judged, mentions, lone)


def _ends_alone(text: str, judged: list[tuple[Group, str]]) -> bool:
    """Whether the last sentence is a label and nothing else."""
    group, what = judged[-1]
    if what != NAMED or len(group.values) > 1 or group.mentions[0].kind != LABEL or group.mentions[0].plain:
        return False
    here = context(text, group)
    if here.lead.strip() or not here.line_before.strip() or not cues.STOPS.match(text, group.last):
        return False
    cut_off = not text[group.last :].strip()
    if cut_off and (group.values[0] == "A" or any(what == NAMED for _, what in judged[:-1])):
        return False
    before = judged[-2][0].last if len(judged) > 1 else 0
    return bool(text[before : group.first].strip(" .,;:)(\n"))


def _nothing_leads(group: Group, here: Context, judged: list[tuple[Group, str]]) -> bool:
    """Whether nothing named before in the sentence is what leads to the group."""
    start = group.first - len(here.lead)
    for other, what in reversed(judged[-8:]):
        if other.first < start:
            return True
        number = other.mentions[0].plain and other.values[0].isdigit()
        if what != REJECTED and other.values != group.values and not number:
            return False
    return True


def _line_answers(
    text: str, lines: list[tuple[Group, Context, bool]], order: Sequence[str], stated: set[str]
) -> list[Group]:
    """Returns the groups that are an answer by standing alone on the first or the last line."""
    if not lines:
        return []
    index = {value: place for place, value in enumerate(order)}
    several = len({group.values[0] for group, _, _ in lines}) > 1
    answers = []
    group, _, bare = lines[0]
    first_line = bool(cues.BEFORE.fullmatch(text[: group.first]))
    follower = index[lines[1][0].values[0]] - index[group.values[0]] if len(lines) > 1 else 0
    enumerates = not bare and text[group.first : group.last + 2] == "1. "
    if first_line and (bare or not several) and follower != 1 and not enumerates:
        answers.append(group)
    group, here, bare = lines[-1]
    begins = group is lines[0][0] and not text[: group.first].strip()
    cut_off = not begins and bare and (":" in here.line_after or ".." in here.line_after)  # "Option B: ..."
    last_line = "\n" not in text[group.last :].strip()
    step = index[group.values[0]] - index[lines[-2][0].values[0]] if len(lines) > 1 else 0
    enumerates = not bare and text[group.first : group.last + 2] == "1. "
    if (
        last_line
        and (bare or not (several or stated - {group.values[0]}))
        and step != 1
        and group not in answers
        and not enumerates
        and not cut_off
    ):
        answers.append(group)
    return answers


def _abstentions(text: str, mentions: Sequence[Mention], start: int = 0) -> list[re.Match[str]]:
    """Returns where the text says that it has no answer, unless an option says so."""
    options = [mention for mention in mentions if mention.kind == TEXT]
    return [
        match
        for match in cues.ABSTAIN.finditer(text, start)
        if not any(option.start < match.end() and match.start() < option.end for option in options)
    ]


def _concluded(
    text: str, group: Group, reason: str, judged: list[tuple[Group, str]], mentions: Sequence[Mention]
) -> Reading:
    """Returns the last statement, unless what follows takes it back or sets another beside it."""
    if text[group.last :].strip(" .!)*\n"):
        if cues.takes_back(text, group.last):
            return Reading("", "retracted")
        if cues.RESUMED.search(text, group.last) and any(
            other.first > group.last
            and what not in (REJECTED, SUPPOSED)
            and other.values != group.values
            and other.mentions[0].kind == group.mentions[0].kind
            for other, what in judged
        ):
            return Reading("", "conflict")
        for match in _abstentions(text, mentions, group.last):
            if not cues.UNSURE.fullmatch(match[0]) and cues.RESOLVES.search(
                text, max(group.last, match.start() - 60), match.start()
            ):
                return Reading("", "abstained")
    if len(group.values) > 1 or any(
        what == ALSO
        and other.values != group.values
        and (other.first > group.first or not cues.CONTRAST.search(text, other.last, group.first))
        for other, what in judged
    ):
        return Reading("", "conflict")
    return Reading(group.values[0], reason, group.span)


def _decide(
    text: str,
    statements: list[tuple[int, Group, str]],
    judged: list[tuple[Group, str]],
    mentions: Sequence[Mention],
    lone: Callable[[str, list[tuple[Group, str]]], Reading | None] | None,
) -> Reading:
    if statements:
        return _concluded(text, statements[-1][1], statements[-1][2], judged, mentions)
    abstained = _abstentions(text, mentions)
    weak = [group for group, what in judged if what == WEAK]
    if weak:
        named = {g.values[0] for g, what in judged if what in (NAMED, WEAK) and len(g.values) == 1}
        certain = {value for group in weak for value in group.values}
        closes = weak[-1] is judged[-1][0] and len(text) - weak[-1].last <= 200
        alone = closes and (len(judged) < 2 or judged[-2][0].last <= weak[-1].first - len(context(text, weak[-1]).lead))
        if len(certain) > 1 or (len(named) > 1 and len(text) <= 400 and not alone):
            return Reading("", "conflict")
        if not abstained or abstained[-1].end() < weak[-1].first:
            return Reading(weak[0].values[0], "likely", weak[0].span)
    if abstained:
        return Reading("", "abstained")
    found = lone(text, judged) if lone else None
    return found or Reading("", "no_choice")
