"""Tells where a text ends: with a sentence or in the middle of one, and whether a statement in it was the last word."""

from __future__ import annotations

from scorer.reading.lexicon import DOCUMENT, Lexicon

LEXICON = Lexicon("ending")


def finished(text: str) -> int:
    """Returns where the last finished sentence or line of a text ends; 0 if there is none."""
    return max((match.end() for match in LEXICON.FINISHED.finditer(text)), default=0)


def broken(text: str) -> int:
    """Returns where the unfinished sentence begins in which a text ends, or its length; 0 if there is none."""
    if LEXICON.DANGLING.search(text, max(len(text) - 12, 0)):
        return len(text)
    end = finished(text)
    if LEXICON.ANNOUNCES.search(text, max(end - 2, 0)):
        return 0
    return end if LEXICON.FRAGMENT.fullmatch(text, end) and LEXICON.STOP.search(text, 0, end + 1) else 0


def goes_on(text: str) -> int:
    """Returns where the last sentence of a text begins if it announces more to come; 0 if it does not."""
    text = text.rstrip()
    start = max((match.end() for match in LEXICON.FINISHED.finditer(text) if match.end() < len(text)), default=0)
    return start if LEXICON.GOES_ON.match(text, start) else 0


def turns(text: str) -> bool:
    """Returns whether the unfinished sentence in which a text ends turns against what was said before it."""
    return LEXICON.TURNS.match(text, finished(text)) is not None


def alone(text: str, start: int, end: int) -> bool:
    """Returns whether a text is nothing but the words at a place, which no number may go on behind."""
    around = text[:start] + text[end:]
    return not any(map(str.isalnum, around)) and not text[end - 1].isdigit()


def lists(text: str, end: int) -> bool:
    """Returns whether a label at a place has words behind it, and the text ends with the beginning of a next item."""
    behind = text[end:].partition("\n")[0]
    return any(map(str.isalnum, behind)) and bool(LEXICON.ITEM.match(text, finished(text)))


def called(text: str, start: int, end: int) -> bool:
    """Returns whether the sentence of what stands at a place has a word for the answer."""
    return bool(LEXICON.ANSWERING.search(_sentence(text, start, end)))


def guesses(text: str, start: int, end: int) -> bool:
    """Returns whether the sentence of what stands at a place is a first guess, or the text takes it up again behind."""
    return bool(LEXICON.HEDGED.search(_sentence(text, start, end)) or DOCUMENT.RESUMED.search(text, end))


def heading(text: str) -> str:
    """Returns the first paragraph of a text, where it is one sentence and more follows; else ""."""
    first, line, _ = text.partition("\n")
    return first if line and not LEXICON.STOP.search(first) and first.rstrip(" *").endswith((".", "!", "。")) else ""


def _sentence(text: str, start: int, end: int) -> str:
    before = [match.end() for match in LEXICON.FINISHED.finditer(text, 0, start)]
    behind = LEXICON.FINISHED.search(text, end)
    return text[before[-1] if before else 0 : behind.end() if behind else len(text)]
