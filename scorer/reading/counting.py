"""Reads the number of things that an answer states."""

from __future__ import annotations

import re
from bisect import bisect
from typing import NamedTuple

from lyncean.vocabulary.reasons import Reason
from scorer.reading.context import sentence
from scorer.reading.lexicon import BEFORE, DOCUMENT, Lexicon
from scorer.reading.numbers import FOREIGN, HAN, WORD_PATTERN, WORDS, value_of
from scorer.reading.prefilter import Prefilter, Seen
from scorer.reading.resolve import Reading, takes_back
from scorer.reading.stance import supposes

LEXICON = Lexicon(
    "counting",
    HAN=HAN,
    NUMBER_WORD=WORD_PATTERN,
    FOREIGN="|".join(FOREIGN),
    BEGINS="".join({word[0] for word in (*WORDS, *FOREIGN, "half", "a", "just", "only", "none") if word.isascii()}),
)
_AMOUNTS = {name: int(value) for name, value in LEXICON.mapping("AMOUNTS").items()}
_LEADS = Prefilter(lambda: (*BEFORE.marked("number"), *LEXICON.marked("number")))
_TAILS = Prefilter(lambda: LEXICON.marked("behind"), anchored=True)


class _Number(NamedTuple):
    value: int
    start: int
    end: int
    rank: int
    sentence: int

    def read(self, reason: str, *, inferred: bool = False) -> Reading:
        return Reading(str(self.value), reason, (self.start, self.end), inferred)


MOST = 400
"""Most numbers that are ranked: the last `MOST`, and the first `MOST // 8` of the others."""


def numbers(text: str) -> list[_Number]:
    """Returns the numbers that may be an answer, with ranks of how firmly they are stated.

    Rank 3 is announced as the answer or a total, 2 concludes, 1 is mentioned, 0 is part of a
    sum or a product, -1 is rejected or vague.
    """
    ranked = []
    ranks: dict[tuple[str, str], int | None] = {}
    ends = [match.start() for match in BEFORE.SENTENCE_END.finditer(text)]
    several_lines = "\n" in text
    matches = list((LEXICON.NUMBER_IN_ASCII if text.isascii() else LEXICON.NUMBER).finditer(text))
    for match in matches[:-MOST][: MOST // 8] + matches[-MOST:]:
        word = (match["digits"] or match[0]).lower().replace(",", "")
        value = _AMOUNTS.get(word, value_of(word))
        if value is None:
            continue
        start, end = match.span()
        lead, tail = _lead(text, start), text[end : end + 120].split("\n", 1)[0]
        if word == "no" and not LEXICON.NONE.search(lead):
            continue
        if word in ("one", "once") and (LEXICON.PRONOUN.search(lead) or LEXICON.ONE.match(tail)):
            continue
        if (lead, tail) not in ranks:
            ranks[lead, tail] = _rank(_LEADS(lead), _TAILS(tail))
        rank = ranks[lead, tail]
        if rank is None:
            continue
        if several_lines and match["digits"] and len(word) < 3 and not lead.strip() and LEXICON.ITEM.match(tail):
            rank = 0
        ranked.append(_Number(value, start, end, rank, bisect(ends, start)))
    return ranked


def _lead(text: str, start: int) -> str:
    """Returns the text before a number in its sentence, or the heading above it."""
    before = text[max(start - 160, 0) : start]
    line = before.rpartition("\n")[2]
    lead = sentence(line, len(line.rstrip()) - 1)
    heading = before.rstrip(" (\"'")
    if not heading.endswith("\n") or lead.strip(" (\"'"):
        return lead
    line = heading.rstrip().rpartition("\n")[2]
    return sentence(line, len(line) - 1) + " " if line.endswith(":") else ""


def _rank(lead: Seen, tail: Seen) -> int | None:
    """Returns the rank of a number; None if it is part of a name: "panel 3"."""
    before, after = lead.text, tail.text
    if lead.search(LEXICON.MARKS) or (
        lead.search(LEXICON.NAME) and not LEXICON.NUMBER_OF.search(before[-12:]) and not lead.search(BEFORE.ANSWER)
    ):
        return None
    if tail.match(LEXICON.MEASURED) or (before[-2:-1].isdigit() and before.endswith(":")):
        return 0
    stop = LEXICON.STOP.search(after)
    if lead.search(BEFORE.BOXED):
        return 3
    if (
        lead.search(BEFORE.NOT)
        or lead.search(LEXICON.APPROXIMATE)
        or tail.match(LEXICON.OR)
        or (stop and stop[0] == "?")
        or (lead.may(BEFORE.GOVERNS) and BEFORE.GOVERNS.search(LEXICON.ASIDE.split(before)[-1]))
        or (lead.search(LEXICON.AT_FIRST) and LEXICON.BUT.match(after))
    ):
        return -1
    supposed = supposes(lead.piece(LEXICON.CONTRAST.split(before)[-1]))
    if tail.match(LEXICON.OPERAND_AFTER) or (lead.search(LEXICON.PARTS) and LEXICON.NUMBER.search(before)):
        return 0
    if lead.search(BEFORE.INSTEAD) or lead.search(LEXICON.TOTAL_BEFORE):
        return -1 if supposed else 3
    if any(map(lead.search, (LEXICON.OPERAND_BEFORE, LEXICON.INCOMPLETE, LEXICON.LISTED))) or tail.match(LEXICON.LISTS):
        return 0
    match = lead.search(BEFORE.ANSWER) or lead.search(BEFORE.ANSWER_NOUN) or lead.search(BEFORE.QUESTIONED)
    if match or tail.match(LEXICON.TOTAL_AFTER):
        negated = bool(match and lead.may(BEFORE.NEGATED) and BEFORE.NEGATED.search(before, match.start()))
        return -1 if negated or supposed else 3
    if supposed:
        return -1
    return 2 if lead.search(LEXICON.SO) else 1


def read_count(seen: Seen) -> Reading:
    """Reads the number that a folded text states."""
    text = seen.text
    ranked = _after_aloud(text, _after_items(text, numbers(text)))
    usable = [number for number in ranked if number.rank > 0]
    lines = ranked[0] if len(ranked) == 1 and ranked[0].rank == 0 else None
    if lines and LEXICON.LINES.match(text, lines.end) and LEXICON.TABLE.search(text, 0, lines.start):
        return lines.read(Reason.ONLY_NUMBER)
    if not usable:
        no_such = None if ranked else LEXICON.NO_SUCH.match(text)
        if no_such and not DOCUMENT.ABSTAIN.search(text, no_such.end()):
            return Reading("0", Reason.NONE, (0, len(text)))
        reckons = any(number.rank == 0 for number in ranked)
        return Reading("", Reason.NO_CONCLUSION if reckons else Reason.NO_NUMBER)
    rank = max(number.rank for number in usable)
    at_rank = [number for number in usable if number.rank == rank]
    last = _lessened(text, usable, at_rank[-1])
    if rank == 3 and _parallel(text, at_rank):
        return Reading("", Reason.NO_CONCLUSION)
    later = [number for number in usable if number.rank == 2 and number.start > last.end]
    if rank == 3 and later and DOCUMENT.RESUMED.search(text, last.end, later[-1].start):
        return later[-1].read(Reason.CORRECTED)
    if takes_back(seen, last.end) or _given_up(text, last.end):
        return Reading("", Reason.RETRACTED)
    if rank == 1:
        return _mentioned(text, usable, parts=LEXICON.AND_MORE.search(text) is not None)
    same = [number for number in usable if number.sentence == last.sentence]
    if rank == 2 and len({number.value for number in same if number.rank == 2 or number.start > last.start}) > 1:
        return Reading("", Reason.CONFLICT)
    return last.read(Reason.STATED, inferred=rank == 2)


def _after_items(text: str, ranked: list[_Number]) -> list[_Number]:
    """Ranks the numbers of list items as 0, since they count nothing: "1) a red car 2) a blue car"."""
    items = [number for number in ranked if LEXICON.NUMBERS_ITEM.match(text, number.end)]
    if [number.value for number in items] != [*range(1, len(items) + 1)] or len(items) < 2:
        return ranked
    return [number._replace(rank=0) if number in items else number for number in ranked]


def _after_aloud(text: str, ranked: list[_Number]) -> list[_Number]:
    """Ranks numbers that count aloud as 0 at most, except for the last: "one, two, three birds"."""
    last = 0
    while (
        last < len(ranked)
        and ranked[last].value == last + 1
        and (not last or text[ranked[last - 1].end : ranked[last].start].strip(" ,.") in ("", "and"))
    ):
        last += 1
    if last < 3:
        return ranked
    counted = text[ranked[last - 1].end : ranked[last - 1].end + 2]
    aloud = [number._replace(rank=min(number.rank, 0)) for number in ranked[:last]]
    if counted[:1] == " " and counted[1:].isalpha() and not LEXICON.OR.match(text, ranked[last - 1].end):
        aloud[-1] = aloud[-1]._replace(rank=max(ranked[last - 1].rank, 1))
    return [*aloud, *ranked[last:]]


def _in_passing(text: str, usable: list[_Number]) -> bool:
    """Returns true if all numbers are in the middle of a description of several sentences."""
    ends = [match.end() for match in BEFORE.SENTENCE_END.finditer(text.rstrip())]
    return len(ends) > 3 and ends[0] <= usable[0].start and usable[-1].end <= ends[-2]


def _parallel(text: str, stated: list[_Number]) -> bool:
    """Returns true if the last two statements are items of a list, and neither decides: "Row 1 has a total of 3"."""
    if len(stated) < 2 or DOCUMENT.RESUMED.search(text, stated[-2].end, stated[-1].start):
        return False
    leads = [LEXICON.NO_LETTERS.sub(" ", _lead(text, number.start)).split()[-2:] for number in stated[-2:]]
    return stated[-2].value != stated[-1].value and leads[0] == leads[1] and len(leads[0]) > 1


def _lessened(text: str, usable: list[_Number], last: _Number) -> _Number:
    """Returns the remainder if a part of a total does not count: "9 in total, with one missing, so 8"."""
    for number in usable:
        near = last.rank == 3 and number.rank == 2 and last.end <= number.start <= last.end + 120
        if near and LEXICON.LESS.search(text, last.end, number.start):
            return number
    return last


def _again(text: str, usable: list[_Number]) -> bool:
    """Returns true if an equal number of other things follows: "One dog, one cat", not "a dozen eggs, 12, are"."""
    if len(usable) < 2:
        return False
    one, other = usable[0].end, usable[1].end
    goes_on = text[other : other + 1] == " " and text[other + 1 : other + 2].isalpha()
    return (goes_on or text[: usable[1].start].endswith(": ")) and LEXICON.NEXT.search(text, one, other) is not None


def _given_up(text: str, end: int) -> bool:
    """Returns true if the reasoning continues after a number and ends without one."""
    resumed = DOCUMENT.RESUMED.search(text, end)
    return resumed is not None and DOCUMENT.ABSTAIN.search(text, resumed.end()) is not None


def _parts(text: str, usable: list[_Number]) -> bool:
    """Returns true if the numbers of a sentence are parts without a sum: "Two on the left, three on the right"."""
    first, rest = usable[0], [number.value for number in usable[1:] if number.sentence == usable[0].sentence]
    if not rest or sum(rest) == first.value:
        return False
    if all(text[: number.start].rstrip().endswith(":") for number in usable[:2]):
        return True
    if LEXICON.EXPLAINED.search(text, first.end, usable[1].start):
        return False
    return not text[: first.start].strip(" (\"'*-") or sum(rest) > first.value


def _sum(text: str, usable: list[_Number]) -> _Number | None:
    """Returns the number that is the sum of all others in the same sentence."""
    if len({number.sentence for number in usable}) != 1 or len(usable) < 3:
        return None
    # "One dog, two cats and three birds"
    between = text[usable[-2].end : usable[-1].start]
    listed = LEXICON.AND.search(between) or between.rstrip().endswith(",")
    for candidate in usable[:1] if listed else (usable[0], usable[-1]):
        if 2 * candidate.value == sum(number.value for number in usable):
            return candidate
    return None


def _mentioned(text: str, usable: list[_Number], *, parts: bool) -> Reading:
    """Reads numbers without an announcement; with `parts` the text states that there are more."""
    first, last = usable[0], usable[-1]
    lines = text.rsplit("\n", 1)
    if not text[: first.start].strip(" (\"'") and (
        not text[first.end :].strip(" .)!\"'") or re.match(r"\s*[.,:;(=\n-](?!\s?\d)", text[first.end :])
    ):
        return first.read(Reason.BARE)
    if len(lines) > 1 and not lines[1].strip(" .()\"'").replace(text[last.start : last.end], "", 1).strip():
        return last.read(Reason.BARE)
    if len({number.value for number in usable}) == 1:
        if _again(text, usable):
            return Reading("", Reason.NO_CONCLUSION)
        if DOCUMENT.ABSTAIN.search(text):
            return Reading("", Reason.ABSTAINED)
        vague = any(LEXICON.AN_OBJECT.search(text, max(number.start - 4, 0), number.end + 1) for number in usable)
        if (
            parts
            or vague
            or LEXICON.ONE_AND_MORE.search(text)
            or LEXICON.PLACED.match(text)
            or _in_passing(text, usable)
        ):
            return Reading("", Reason.NO_CONCLUSION)
        return last.read(Reason.ONLY_NUMBER)
    resumed = list(DOCUMENT.RESUMED.finditer(text, first.end, last.start))
    after = [number for number in usable if resumed and number.start > resumed[-1].end()]
    if after and len({number.value for number in after}) == 1:
        return last.read(Reason.CORRECTED)
    total = _sum(text, usable)
    if total:
        return total.read(Reason.STATED, inferred=True)
    if LEXICON.ONE_AND_MORE.search(text) and len(usable) < 3:
        return Reading("", Reason.NO_CONCLUSION)
    heading = LEXICON.HEADING.search(text, 0, last.start)
    if heading and not text[last.end :].strip(" .!*") and not LEXICON.HEADED.search(text, 0, heading.start()):
        return last.read(Reason.STATED, inferred=True)
    apart = usable[1].start - first.end > 2
    if _parallel(text, usable[:2]) or _parts(text, usable):
        return Reading("", Reason.NO_CONCLUSION)
    if apart and LEXICON.BREAKDOWN.match(text[first.end : first.end + 120]) and first.sentence == usable[1].sentence:
        return first.read(Reason.STATED, inferred=True)
    return Reading("", Reason.CONFLICT)
