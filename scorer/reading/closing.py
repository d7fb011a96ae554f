"""Reads how a text closes: the sentence it ends with, behind which only courtesies stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lyncean.vocabulary.reasons import Reason
from scorer.reading.lexicon import BEFORE, DOCUMENT, Lexicon
from scorer.reading.mentions import LABEL, Mention
from scorer.reading.prefilter import Seen
from scorer.reading.resolve import Lone, Reading, read

LEXICON = Lexicon("closing")
_COURTESIES = 4
"""Courtesies that a text ends with, at most."""


def without_courtesy(text: str) -> str:
    """Returns a text without the courtesies and offers that it ends with."""
    for _ in range(_COURTESIES):
        end = text.rstrip()
        start = _last(end)
        if not start or not LEXICON.COURTESY.match(end, start):
            break
        text = end[:start].rstrip()
    return text


def by_last_sentence(
    seen: Seen, named: Sequence[Mention], named_in: Callable[[str], list[Mention]], order: Sequence[str], lone: Lone
) -> Reading | None:
    """Reads the last sentence alone, where it says plainly what something is and ends with one option.

    Nothing of a text of one sentence, of one that says that it has no answer, or that names another label.

    Args:
        seen: The folded text, of which nothing is read as a whole.
        named: Everything that it names.
        named_in: Finds what a text names.
        order: The labels in their order.
        lone: Reads a text that states nothing.
    """
    end = seen.text.rstrip()
    start = _last(end)
    said = end[start:]
    if LEXICON.GUESSES.search(said) or DOCUMENT.ABSTAIN.search(end):
        return None
    found = named_in(said)
    if not found or (not start and len({mention.value for mention in found}) < 2) or not _says_one(said, found):
        return None
    if any(each.kind == LABEL and not each.plain and each.value != found[0].value for each in named):
        return None
    if any(_names_plainly(line, found[0].value, named_in) for line in BEFORE.SENTENCE_END.split(end[:start])):
        return None
    reading = read(seen.piece(said), found[-1:], order, lone)
    first, last = reading.span
    return Reading(reading.value, Reason.CONCLUDED, (first + start, last + start)) if reading.value else None


def _says_one(said: str, found: Sequence[Mention]) -> bool:
    """Whether a sentence says plainly what one option is, or that something is this option."""
    if len({mention.value for mention in found}) == 1:
        closes = LEXICON.SAYS.match(said) and LEXICON.CLOSES.fullmatch(said, found[-1].last)
        best = LEXICON.BEGINS.fullmatch(said[: found[0].first]) and LEXICON.IS_BEST.match(said, found[0].last)
        return bool(closes or best)
    # "The object that holds the spoon is the cup."
    subject = LEXICON.SUBJECT_IS.fullmatch(said[: found[-1].first])
    return bool(subject and LEXICON.CLOSES.fullmatch(said, found[-1].last))


def _names_plainly(said: str, value: str, named_in: Callable[[str], list[Mention]]) -> bool:
    """Whether a sentence says as plainly that something is another option: "The left one is empty."."""
    said = said.strip()
    found = named_in(said) if LEXICON.SAYS.match(said) else []
    return bool(found) and found[-1].value != value and bool(LEXICON.CLOSES.fullmatch(said, found[-1].last))


def first_sentence(text: str) -> str:
    """Returns the sentence that a text begins with, if it says plainly what something is; else ""."""
    stop = BEFORE.SENTENCE_END.search(text)
    said = text[: stop.end()] if stop else ""
    return said if LEXICON.OPENS.match(said) and not LEXICON.GUESSES.search(said) else ""


def repeated(text: str) -> str:
    """Returns the one word of a text that says nothing but this word, again and again; else ""."""
    words = text.split()
    return words[0] if len(words) > 2 and len(set(words)) == 1 else ""


def _last(text: str) -> int:
    """Returns where the last sentence of a text begins, which ends without blanks."""
    return max((match.end() for match in BEFORE.SENTENCE_END.finditer(text, 0, len(text) - 1)), default=0)
