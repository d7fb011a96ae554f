# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""Reads which number of things an answer states."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass

from scorer.reading.lexicon import before as cues
from scorer.reading.lexicon import document
from scorer.reading.numbers import FOREIGN, HAN, WORD_PATTERN, WORDS, value_of
from scorer.reading.prefilter import WORD, Screen, Seen
from scorer.reading.resolve import Reading

_W = WORD
_WORDS = rf"{WORD_PATTERN}|half a dozen|(?:a|one) dozen|a pair|(?:a|one|just a|only a) single|(?:one|a) hundred|{'|'.join(FOREIGN)}|none|no(?= (?:panels?|grids?|pieces?|choices?|shapes?|images?|boxes|squares?|cells?|such)\b)"
_IN_LATIN = rf"(?<![{_W}.#/])(?<!\d,)(?<!(?<![0-9A-Za-z) ])-)(?:(?P<digits>\d{{1,9}}(?:,\d{{3}})*)(?:\.0{{1,3}}(?![\d.]))?(?![{_W}%°]|\.\d|,\d|[/:]\d)|(?P<word>{_WORDS})(?![{_W}]| (?:hundred|thousand|million|dozen)\b))"
_NUMBER = re.compile(
    rf"{_IN_LATIN}|(?P<han>[{HAN}]+)(?=[个個格张張幅块塊つ枚面])|(?:(?<=[是为為:有])|\A)[{HAN}]+(?=[.\s]*\Z)",
    re.IGNORECASE,
)
_BEGINS = "".join({word[0] for word in (*WORDS, *FOREIGN, "half", "a", "just", "only", "none") if word.isascii()})
# The same in a text of ASCII, where it is a matter of words and of few letters.
_NUMBER_IN_ASCII = re.compile(rf"\b(?=[0-9{_BEGINS}]){_IN_LATIN}", re.IGNORECASE)
_SPECIAL = {
    "a dozen": 12,
    "one dozen": 12,
    "half a dozen": 6,
    "a pair": 2,
    "a single": 1,
    "one single": 1,
    "just a single": 1,
    "only a single": 1,
    "a hundred": 100,
    "one hundred": 100,
    "none": 0,
    "no": 0,
}

_NAME = re.compile(
    r"(?:\b(?:choice|option|panel|grid|row|column|col|step|figure|fig\.?|image|question|part|number|no\.?|level|case|line|cell|item|section|position|piece|picture|puzzle|example|version|table|page|q)s?|#|第) ?#?\(?$",
    re.IGNORECASE,
)
_MARKS = re.compile(
    r"\b(?:marked|labell?ed|numbered|called|indices|index)\b(?:(?!\b(?:so|there)\b)[^.;!?\n]){0,40}$", re.IGNORECASE
)
_OPERAND_BEFORE = re.compile(
    r"(?:\d|\bone|two|three|four|five|six|seven|eight|nine|ten)\s*(?:x|by|times|[*/+-]|plus|minus|\+|and then)\s*$|\b(?:each|every) (?:with|containing|having|of|has|holds?|contains?)\s*$|\b(?:rows?|columns?|groups?|sets?|lines?|pairs?) (?:of|with|containing|each with)\s*$|\b(?:plus|minus|adding|times|multiplied by|more than|less than|fewer than|at least|at most|up to|over|under|from)\s*$|(?:\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|neither|none|any|some|most|either|each)) (?:out )?of (?:the |these |those |all )?$",
    re.IGNORECASE,
)
_OPERAND_AFTER = re.compile(
    r"\s*(?:x|by|times|[*/+]|-(?=\s*\d)|plus|minus)\s*(?:\d|a\b|one|two|three|four|five|six|seven|eight|nine|ten)|[ -](?:rows?|columns?|by)\b|\s*(?:\w+ )?(?:per|in each|for each|each)\b|-(?:sided|pointed|panel|grid|piece|by)\b|(?:th|st|nd|rd)\b|\s*(?:more|other|missing|additional|extra)\b|\s*(?:\w+ )?of (?:\d|(?:them|these|those|which|the)\b(?!\s*(?:[.!](?:\s|$)|\(|$|\n)))",
    re.IGNORECASE,
)
_ONE = re.compile(
    r"\s+(?=(?:of|that|which|is|was|on|in|at|with|has|can|must|might|needs|by|has|where|more|way|another|could|should|would|row|to)\b)",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:the|this|that|which|each|last|missing|blank|correct|other|another|first|second|third|next|any|no|every|some|right|left|same|different|empty|black|white|small|large|big)\s*$",
    re.IGNORECASE,
)
_OR = re.compile(
    r"\s?\+(?!\s?\d)|\s+(?:or|and) (?:more|fewer|less|higher|lower|greater|up|above)\b|(?:,\s?\w{1,12}){0,5},?\s*(?:or|to|-|/)\s*(?=\d|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)",
    re.IGNORECASE,
)
_NUMBER_THEN = re.compile(
    r"[^,.;:()\n]{0,24}\bor\s+(?:maybe\s+|perhaps\s+|possibly\s+)?(?:\d|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen)",
    re.IGNORECASE,
)

_TOTAL_BEFORE = re.compile(
    r"(?:\b(?:in total|altogether|in all|total(?: (?:number|count|amount))?|sum(?:s)?(?: is| up)?|grand total|count(?= (?:is|=|:))|together)\b[^.;\n\d]{0,60}?(?:\b(?:is|are|of|equals|to|has|have|contains?|there are|we have|makes?|be|was)\b|[:=,])|"
    r"[=]|\b(?:adds? up to|amounts? to|comes? (?:out )?to|totall?ing|totals?|making|(?:that|this|it|which|and|grid|grids|panels?|one|blank) makes?|makes?|giving|gives?(?: us)?|yields?|equals|which makes|i count(?:ed)?|so i count|we count)|\b(?:with|including|adding|counting) (?:the|all)\b[^.;,:\n]{1,40},|一共有?|总共有?|共有?|合計は?|全部で|총|모두|en total hay|au total|insgesamt|no total)"
    r"\s*(?:exactly|just|only|a total of|is|are|it|there are|us|about|approximately|around|[:=(\"'])*\s*$",
    re.IGNORECASE,
)
_TOTAL_AFTER = re.compile(
    r"[^.;,:\n\d]{0,60}?\b(?:in total|altogether|in all|overall|total|all together|combined|en total|au total|insgesamt|no total|in the (?:whole|entire) \w+)\b",
    re.IGNORECASE,
)
_SO = re.compile(
    r"(?:(?:^|[\s,(;:])(?:(?<!or )so|thus|therefore|hence|consequently|finally|in conclusion|overall|(?<=, )or(?! so)|i\.e\.|that is)(?=\W)|→|所以|因此)[^.;:\n\d]{0,70}?$",
    re.IGNORECASE,
)
_INCOMPLETE = re.compile(
    r"\b(?:exclud\w+|without|not (?:counting|including)|apart from|besides|ignoring)\b(?:(?!\bincluding\b|\bcounting\b|\bwith\b)[^.;\n]){0,60}$",
    re.IGNORECASE,
)
_PARTS = re.compile(r"[^.;\n]\b(?:in total|altogether|in all|total)\s*[:(,-]\s*$", re.IGNORECASE)
_LISTED, _LISTS = (
    re.compile(r"\d\s?,\s?(?:and )?$|\d\s?,\s?\d+\s?,?\s?and $"),
    re.compile(r"\s?,\s?(?:and )?\d|: \d|\sand \d+\s?[.!]?\s*$"),
)
_ASIDE = re.compile(r"\bbut |, (?=(?:perhaps|maybe|probably|possibly|i'd|i would)\b)", re.IGNORECASE)
_NONE = re.compile(r"\b(?:there(?:'s| is| are)|has|have|contains?)\s$", re.IGNORECASE)
_APPROXIMATE = re.compile(
    r"\b(?:at least|at most|more than|less than|fewer than|up to|over|under|no more than|no fewer than|between|from|either|between [^.,;\n]{1,20} and|from [^.,;\n]{1,20} to)\s*$|[≥≤<>]\s*$|(?:\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)) ?(?:or|to|-) ?(?:maybe |perhaps |even |possibly )?$",
    re.IGNORECASE,
)
_BREAKDOWN = re.compile(
    r"[^.\n\d]{0,60}?(?:[:(]|\s-+\s|, (?:with|including|of which|namely|consisting|i\.e|made up|which|the|each|one|where|four|three|two|five|counting))",
    re.IGNORECASE,
)


_CONTRAST = re.compile(r"\b(?:but|however|although|though|yet)\b", re.IGNORECASE)
"""Before a number: what was supposed, or denied, lies behind it."""
_AT_FIRST = re.compile(
    r"\b(?:first|initially|originally|at first)\b[^.;!?\n\d]{0,20}\b(?:count|saw|see|thought|got|found|said)\w*[^.;!?\n\d]{0,24}$|\bthere should (?:be|have been)\s*$",
    re.IGNORECASE,
)
_BUT = re.compile(r"[^.;!?\n\d]{0,60}\bbut\b", re.IGNORECASE)
"""Before and behind a number: it is about to be corrected."""
_NO_SUCH = re.compile(
    r"(?:(?:in|looking at|based on) (?:the|this) (?:\w+ )?(?:image|picture|figure|panel|photo),? )?"
    r"(?:there (?:are|were) (?:no|not any)|there aren'?t any|i (?:see|count|find|can see) no|i (?:do not|don't|can't|cannot) see any|it (?:has|contains) no|the (?:image|picture|figure|panel) (?:has|contains|shows) no)"
    r" (?!(?:\w+ )?(?:options|choices|answers|clues|numbers|details|labels|doubts?|images|others|differences|changes|ways|means|signs|patterns|similarities|instructions|words|reasons|specifics|visible details)\b)"
    r"(?:[a-z]+ ){0,2}[a-z]{3,}s(?: (?:visible|present|shown|here|(?:in|on|inside|within|at) (?:the|this|any|it)(?: [a-z]+){0,4}))?(?:[.!](?=\s|$)|(?=\s*$))",
    re.IGNORECASE,
)
"""An answer that begins by saying that there is nothing to count."""

_AND = re.compile(r"(?:\band|&)\s$", re.IGNORECASE)
_LESS = re.compile(
    r"\b(?:missing|minus|subtract\w*|without|except|excluding|removed|removing|empty|blank|covered|hidden|left out)\b",
    re.IGNORECASE,
)
"""Between a total and what is concluded from it: some of it does not count."""
_STOP = re.compile(r"[.!?](?=\s|$)")
_NUMBER_OF = re.compile(r"\bnumber of\b")
_ITEM = re.compile(r"[.)]\s+\S")
_LEADS = Screen(
    (
        *(
            cues.ANSWER,
            cues.ANSWER_NOUN,
            cues.BOXED,
            cues.GOVERNS,
            cues.HYPOTHETICAL,
            cues.INSTEAD,
            cues.NEGATED,
            cues.NOT,
            cues.QUESTIONED,
        ),
        *(_APPROXIMATE, _AT_FIRST, _INCOMPLETE, _LISTED, _MARKS, _NAME, _OPERAND_BEFORE, _PARTS, _SO, _TOTAL_BEFORE),
    )
)
_TAILS = Screen((_LISTS, _OPERAND_AFTER, _OR, _TOTAL_AFTER), anchored=True)


@dataclass(frozen=True, slots=True)
class _Number:
    value: int
    start: int
    end: int
    rank: int
    sentence: int


MOST = 400
"""Numbers looked at: the last so many, and an eighth of that at the beginning."""


def numbers(text: str) -> list[_Number]:
    """Returns the numbers that may be an answer, each with how firmly it is stated.

    Rank 3 is announced as the answer or a total, 2 concludes, 1 is mentioned, 0 is part of a
    sum or a product, -1 is rejected or vague.
    """
    found = []
    ranks: dict[tuple[str, str], int | None] = {}
    ends = [match.start() for match in cues.SENTENCE_END.finditer(text)]
    several_lines = "\n" in text
    matches = list((_NUMBER_IN_ASCII if text.isascii() else _NUMBER).finditer(text))
    for match in matches[:-MOST][: MOST // 8] + matches[-MOST:]:
        word = (match["digits"] or match[0]).lower().replace(",", "")
        value = _SPECIAL.get(word, value_of(word))
        if value is None:
            continue
        start, end = match.span()
        lead, tail = _lead(text, start), text[end : end + 120].split("\n", 1)[0]
        if word == "no" and not _NONE.search(lead):
            continue
        if word in ("one", "once") and (_PRONOUN.search(lead) or _ONE.match(tail)):
            continue
        if (lead, tail) not in ranks:
            ranks[lead, tail] = _rank(_LEADS(lead), _TAILS(tail))
        rank = ranks[lead, tail]
        if rank is None:
            continue
        if several_lines and match["digits"] and len(word) < 3 and not lead.strip() and _ITEM.match(tail):
            rank = 0
        found.append(_Number(value, start, end, rank, bisect(ends, start)))
    return found


def _lead(text: str, start: int) -> str:
    """Returns the words before a number in its sentence, or the heading above it."""
    before = text[max(start - 160, 0) : start]
    lead = _sentence(before.rpartition("\n")[2])
    header = before.rstrip(" (\"'")
    if header.endswith("\n") and not lead.strip(" (\"'"):
        header = header.rstrip()
        return _sentence(header.rsplit("\n", 1)[-1]) + " " if header.endswith(":") else ""
    return lead


def _sentence(line: str) -> str:
    start = 0
    for match in cues.SENTENCE_END.finditer(line):
        if match.end() < len(line.rstrip()):
            start = match.end()
    return line[start:]


def _rank(lead: Seen, tail: Seen) -> int | None:
    """Returns how firmly a number is stated; None if it names something: "panel 3"."""
    before, after = lead.text, tail.text
    if lead.search(_MARKS) or (
        lead.search(_NAME) and not _NUMBER_OF.search(before[-12:]) and not lead.search(cues.ANSWER)
    ):
        return None
    stop = _STOP.search(after)
    question = bool(stop and stop[0] == "?")
    if lead.search(cues.BOXED):
        return 3
    if (
        lead.search(cues.NOT)
        or lead.search(_APPROXIMATE)
        or tail.match(_OR)
        or question
        or (lead.may(cues.GOVERNS) and cues.GOVERNS.search(_ASIDE.split(before)[-1]))
    ):
        return -1
    if lead.search(_AT_FIRST) and _BUT.match(after):
        return -1
    supposed = cues.supposes(lead.piece(_CONTRAST.split(before)[-1]))
    if tail.match(_OPERAND_AFTER):
        return 0
    if lead.search(_PARTS) and _NUMBER.search(before):
        return 0
    if lead.search(cues.INSTEAD) or lead.search(_TOTAL_BEFORE):
        return -1 if supposed else 3
    if lead.search(_OPERAND_BEFORE):
        return 0
    if lead.search(_INCOMPLETE) or lead.search(_LISTED) or tail.match(_LISTS):
        return 0
    match = lead.search(cues.ANSWER) or lead.search(cues.ANSWER_NOUN) or lead.search(cues.QUESTIONED)
    if match or tail.match(_TOTAL_AFTER):
        negated = bool(match and lead.may(cues.NEGATED) and cues.NEGATED.search(before, match.start()))
        return -1 if negated or supposed else 3
    if supposed:
        return -1
    return 2 if lead.search(_SO) else 1


def read_count(seen: Seen) -> Reading:
    """Returns the number stated, from a folded text and what may be found in it."""
    text = seen.text
    found = numbers(text)
    usable = [number for number in found if number.rank > 0]
    if not usable:
        nothing = None if found else _NO_SUCH.match(text)
        if nothing and not document.ABSTAIN.search(text, nothing.end()):
            return Reading("0", "none", (0, len(text)))
        zero = [number for number in found if number.rank == 0]
        return Reading("", "no_number" if not zero else "no_conclusion")
    rank = max(number.rank for number in usable)
    at_rank = [number for number in usable if number.rank == rank]
    last = _lessened(text, usable, at_rank[-1])
    if document.takes_back(seen, last.end):
        return Reading("", "retracted")
    alternatives = {number.value for number in at_rank if number.sentence == last.sentence}
    tail = text[last.end : last.end + 60]
    if _NUMBER_THEN.match(tail):
        return Reading("", "conflict")
    if rank == 1:
        return _mentioned(text, usable)
    if (
        rank == 2
        and len(alternatives | {n.value for n in usable if n.sentence == last.sentence and n.start > last.start}) > 1
    ):
        return Reading("", "conflict")
    return Reading(str(last.value), "stated", (last.start, last.end))


def _lessened(text: str, usable: list[_Number], last: _Number) -> _Number:
    """Returns what a total comes to where some of it does not count: "9 in total, with one missing, so 8"."""
    for number in usable:
        near = last.rank == 3 and number.rank == 2 and last.end <= number.start <= last.end + 120
        if near and _LESS.search(text, last.end, number.start):
            return number
    return last


def _sum(text: str, usable: list[_Number]) -> _Number | None:
    """Returns the number that is the sum of all others named with it in one sentence."""
    if len({number.sentence for number in usable}) != 1 or len(usable) < 3:
        return None
    # "One dog, two cats and three birds"
    listed = _AND.search(text[usable[-2].end : usable[-1].start])
    for candidate in usable[:1] if listed else (usable[0], usable[-1]):
        if 2 * candidate.value == sum(number.value for number in usable):
            return candidate
    return None


def _mentioned(text: str, usable: list[_Number]) -> Reading:
    first, last = usable[0], usable[-1]
    lines = text.rsplit("\n", 1)
    if not text[: first.start].strip(" (\"'") and (
        not text[first.end :].strip(" .)!\"'") or re.match(r"\s*[.,:;(=\n-](?!\s?\d)", text[first.end :])
    ):
        return Reading(str(first.value), "bare", (first.start, first.end))
    if len(lines) > 1 and not lines[1].strip(" .()\"'").replace(text[last.start : last.end], "", 1).strip():
        return Reading(str(last.value), "bare", (last.start, last.end))
    if len({number.value for number in usable}) == 1:
        if document.ABSTAIN.search(text):
            return Reading("", "abstained")
        return Reading(str(last.value), "only_number", (last.start, last.end))
    resumed = list(document.RESUMED.finditer(text, first.end, last.start))
    after = [number for number in usable if resumed and number.start > resumed[-1].end()]
    if after and len({number.value for number in after}) == 1:
        return Reading(str(last.value), "corrected", (last.start, last.end))
    total = _sum(text, usable)
    if total:
        return Reading(str(total.value), "stated", (total.start, total.end))
    apart = usable[1].start - first.end > 2
    if apart and _BREAKDOWN.match(text[first.end : first.end + 120]) and first.sentence == usable[1].sentence:
        return Reading(str(first.value), "stated", (first.start, first.end))
    return Reading("", "conflict")
