"""Reads the last sentence of a text before its closing courtesies, and the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lyncean.vocabulary.reasons import Reason
from scorer.reading.lexicon import BEFORE, DOCUMENT, Lexicon
from scorer.reading.mentions import LABEL, Mention
from scorer.reading.prefilter import Seen
from scorer.reading.resolve import Fallback, Reading, read

LEXICON = Lexicon("closing")
_COURTESIES = 4
"""Most closing courtesies that are removed."""


def without_courtesy(text: str) -> str:
    """Returns a text without its closing courtesies and offers."""
    for _ in range(_COURTESIES):
        end = text.rstrip()
        start = _last(end)
        if not start or not LEXICON.COURTESY.match(end, start):
            break
        text = end[:start].rstrip()
    return text


def by_last_sentence(
    seen: Seen,
    mentions: Sequence[Mention],
    named_in: Callable[[str], list[Mention]],
    order: Sequence[str],
    fallback: Fallback,
) -> Reading | None:
    """Reads the last sentence alone, if it is a plain statement that ends with one option.

    Returns None for a text of one sentence, a text that abstains, and one that names another label.

    Args:
        seen: The folded text, which has no reading in full.
        mentions: All mentions of options in it.
        named_in: Returns the mentions of options in a text.
        order: The labels in their order.
        fallback: Reads a text that states no option.
    """
    end = seen.text.rstrip()
    start = _last(end)
    sentence = end[start:]
    if LEXICON.GUESSES.search(sentence) or DOCUMENT.ABSTAIN.search(end):
        return None
    named = named_in(sentence)
    if not named or (not start and len({mention.value for mention in named}) < 2) or not _says_one(sentence, named):
        return None
    if any(mention.kind == LABEL and not mention.plain and mention.value != named[0].value for mention in mentions):
        return None
    if any(_names_plainly(line, named[0].value, named_in) for line in BEFORE.SENTENCE_END.split(end[:start])):
        return None
    reading = read(seen.piece(sentence), named[-1:], order, fallback)
    first, last = reading.span
    return Reading(reading.value, Reason.CONCLUDED, (first + start, last + start)) if reading.value else None


def _says_one(sentence: str, named: Sequence[Mention]) -> bool:
    """Returns true if a sentence plainly describes one option, or identifies something with it."""
    if len({mention.value for mention in named}) == 1:
        closes = LEXICON.SAYS.match(sentence) and LEXICON.CLOSES.fullmatch(sentence, named[-1].last)
        best = LEXICON.BEGINS.fullmatch(sentence[: named[0].first]) and LEXICON.IS_BEST.match(sentence, named[0].last)
        return bool(closes or best)
    # "The object that holds the spoon is the cup."
    subject = LEXICON.SUBJECT_IS.fullmatch(sentence[: named[-1].first])
    return bool(subject and LEXICON.CLOSES.fullmatch(sentence, named[-1].last))


def _names_plainly(sentence: str, value: str, named_in: Callable[[str], list[Mention]]) -> bool:
    """Returns true if a sentence identifies something with another option as plainly: "The left one is empty."."""
    sentence = sentence.strip()
    named = named_in(sentence) if LEXICON.SAYS.match(sentence) else []
    return bool(named) and named[-1].value != value and bool(LEXICON.CLOSES.fullmatch(sentence, named[-1].last))


def first_sentence(text: str) -> str:
    """Returns the first sentence of a text, if it is a plain statement; else ""."""
    stop = BEFORE.SENTENCE_END.search(text)
    sentence = text[: stop.end()] if stop else ""
    return sentence if LEXICON.OPENS.match(sentence) and not LEXICON.GUESSES.search(sentence) else ""


def repeated(text: str) -> str:
    """Returns the word of a text that only repeats one word; else ""."""
    tokens = text.split()
    return tokens[0] if len(tokens) > 2 and len(set(tokens)) == 1 else ""


def _last(text: str) -> int:
    """Returns the start of the last sentence of a text without trailing blanks."""
    return max((match.end() for match in BEFORE.SENTENCE_END.finditer(text, 0, len(text) - 1)), default=0)
