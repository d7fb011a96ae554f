"""Inspects the end of a text: a finished or a broken sentence, and whether a statement before it is final."""

from __future__ import annotations

from scorer.reading.lexicon import DOCUMENT, Lexicon

LEXICON = Lexicon("ending")


def finished(text: str) -> int:
    """Returns the end of the last finished sentence or line of a text; 0 if there is none."""
    return max((match.end() for match in LEXICON.FINISHED.finditer(text)), default=0)


def broken(text: str) -> int:
    """Returns the start of a text's unfinished last sentence, or the text's length; 0 if it is finished."""
    if LEXICON.DANGLING.search(text, max(len(text) - 12, 0)):
        return len(text)
    end = finished(text)
    if LEXICON.ANNOUNCES.search(text, max(end - 2, 0)):
        return 0
    return end if LEXICON.FRAGMENT.fullmatch(text, end) and LEXICON.STOP.search(text, 0, end + 1) else 0


def goes_on(text: str) -> int:
    """Returns the start of the last sentence of a text if it announces a continuation; else 0."""
    text = text.rstrip()
    start = max((match.end() for match in LEXICON.FINISHED.finditer(text) if match.end() < len(text)), default=0)
    return start if LEXICON.GOES_ON.match(text, start) else 0


def turns(text: str) -> bool:
    """Returns true if a text's unfinished last sentence contradicts the ones before ("but", "wait")."""
    return LEXICON.TURNS.match(text, finished(text)) is not None


def alone(text: str, start: int, end: int) -> bool:
    """Returns true if a text holds only a span without a final digit: the cut may have shortened a number."""
    around = text[:start] + text[end:]
    return not any(map(str.isalnum, around)) and not text[end - 1].isdigit()


def lists(text: str, end: int) -> bool:
    """Returns true if text follows a label on its line, and the document ends with the start of a further item."""
    following = text[end:].partition("\n")[0]
    return any(map(str.isalnum, following)) and bool(LEXICON.ITEM.match(text, finished(text)))


def called(text: str, start: int, end: int) -> bool:
    """Returns true if the sentence of a span has a word for the answer."""
    return bool(LEXICON.ANSWERING.search(_sentence(text, start, end)))


def guesses(text: str, start: int, end: int) -> bool:
    """Returns true if the sentence of a span is a first guess, or the text resumes its reasoning after it."""
    return bool(LEXICON.HEDGED.search(_sentence(text, start, end)) or DOCUMENT.RESUMED.search(text, end))


def heading(text: str) -> str:
    """Returns the first paragraph of a text, if it is one sentence and more text follows; else ""."""
    first, line, _ = text.partition("\n")
    return first if line and not LEXICON.STOP.search(first) and first.rstrip(" *").endswith((".", "!", "。")) else ""


def _sentence(text: str, start: int, end: int) -> str:
    before = [match.end() for match in LEXICON.FINISHED.finditer(text, 0, start)]
    following = LEXICON.FINISHED.search(text, end)
    return text[before[-1] if before else 0 : following.end() if following else len(text)]
