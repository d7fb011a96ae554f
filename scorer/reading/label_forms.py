"""The ways to write labels, and the search for them in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from scorer.reading.lexicon import WORD, Lexicon
from scorer.reading.numbers import ORDINALS

LEXICON = Lexicon("labels")
_VERBS = "|".join(
    f"{first}(?:{'|'.join(verb[1:] for verb in verbs)})"
    for first, verbs in groupby(sorted(LEXICON.entries("AFTER_LABEL")), key=itemgetter(0))
)
"""Verbs after a label, which show that "A" is not an article; grouped by first letter, so that few are tried."""
_ANNOUNCING = frozenset(
    ("", *(word for name in ("ANNOUNCING", "LABEL_NOUN", "THING_NOUN") for word in LEXICON.entries(name)))
)
"""All words that announce a label."""
_WORDS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_.#")}
_REACH = 80
"""Most code points of the announcement before a label."""


class Forms:
    """All ways to write some labels.

    Attributes:
        meanings: Form -> label.
        pattern: Finds the forms in folded text.
    """

    def __init__(self, meanings: Mapping[str, str]) -> None:
        self.meanings = meanings
        single = "".join(re.escape(name) for name in sorted(meanings) if len(name) == 1 and name not in "Nn")
        self.pattern = re.compile(
            LEXICON.source(
                "FORM",
                AFTER_SLASH=rf"(?<=(?<![{WORD}])[{single}]/)" if single else "(?!)",
                ONE=_spelled(sorted(meanings, key=lambda form: (-len(form), form))),
                VERBS=_VERBS,
            )
        )
        self._anywhere = _anywhere(meanings)

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Yields the matches of `pattern.finditer`; in ASCII it tries the slow pattern only around a form."""
        if not text.isascii():
            yield from self.pattern.finditer(text)
            return
        # No match overlaps another, and none begins where one was tried in vain: both bound the work per form.
        done = tried = 0
        for form in self._anywhere.finditer(text):
            position = form.start()
            while done <= position:
                match = self._match(text, position, max(done, tried))
                if not match:
                    tried = position + 1
                    break
                yield match
                done = match.end()

    def _match(self, text: str, position: int, low: int) -> re.Match[str] | None:
        """Returns the first match that begins between `low` and the position of a form."""
        bracket = position
        while bracket > max(low, position - 3) and text[bracket - 1] in "([\"'<":
            bracket -= 1
        for start in (*reversed(_announced(text, bracket, low)), *range(bracket, position + 1)):
            match = self.pattern.match(text, start)
            if match:
                return match
        return None


def _announced(text: str, end: int, low: int) -> list[int]:
    """Returns the starts of all words that may announce a label at `end`, the last word first."""
    starts: list[int] = []
    low = max(low, end - _REACH)
    before = text[low:end].lower().replace("\n", " ").rstrip()
    while before:
        word = before[before.rfind(" ") + 1 :]
        if word.isalnum() and word not in _ANNOUNCING:
            break
        plain = word.translate(_WORDS).rpartition(" ")[2]
        if plain.rstrip("#") not in _ANNOUNCING:
            plain = plain.rpartition(".")[2]
        if not plain or plain.rstrip("#") not in _ANNOUNCING:
            break
        starts.append(low + len(before) - len(plain))
        if plain != word:
            break
        before = before[: -len(word)].rstrip()
    return starts


def _anywhere(meanings: Mapping[str, str]) -> re.Pattern[str]:
    """Returns a pattern of the beginnings of forms: their first word, and two more after an article."""
    keys = sorted({" ".join(name.split(" ")[: 3 if name[:4].lower() == "the " else 1]) for name in meanings})
    begins = {re.escape(first): list(group) for first, group in groupby(keys, key=itemgetter(0))}
    forms = "|".join(
        rf"(?<={first})(?:{'|'.join(re.escape(key[1:]) for key in group)})" for first, group in begins.items()
    )
    return re.compile(
        rf"[{''.join(begins)}](?:(?<![0-9A-Za-z].)|(?i:(?<=option.)|(?<=choice.)))(?:{forms})(?![0-9A-Za-z_])"
    )


def _spelled(names: Sequence[str]) -> str:
    """Returns a pattern of names as a tree of their letters; of two that match, the first wins."""
    first, last = min(names), max(names)
    shared = next(
        (index for index, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first)
    )
    begins: dict[str, list[str]] = {}
    for name in names:
        begins.setdefault(name[shared : shared + 1], []).append(name[shared:])
    rests = "|".join(map(_spelled, begins.values())) if len(names) > 1 else ""
    return re.escape(first[:shared]) + (f"(?:{rests})" if rests else "")


@lru_cache(maxsize=256)
def forms_of(names: tuple[str, ...], values: tuple[str, ...] = ()) -> Forms:
    """Returns the forms of labels, in any case and by ordinal; a form means its label, or the value at its position."""
    pairs = list(zip(names, values or names, strict=True))
    by_position = {
        form: value
        for ordinal, value in (*by_ordinal(tuple(value for _, value in pairs)).items(), ("last", pairs[-1][1]))
        for noun in ("option", "choice")
        for name in (f"{ordinal} {noun}", f"the {ordinal} {noun}")
        for form in (name, name.capitalize())
    }
    by_position |= {
        f"the {ordinal} one": value for ordinal, value in by_ordinal(tuple(value for _, value in pairs)).items()
    }
    return Forms(
        by_position | {form: value for name, value in reversed(pairs) for form in (name.lower(), name.upper(), name)}
    )


@lru_cache(maxsize=256)
def by_ordinal(values: tuple[str, ...]) -> dict[str, str]:
    """Returns labels by the ordinals of their positions."""
    return {ordinal: value for number, value in enumerate(values[:9], 1) for ordinal in ordinals(number)}


def ordinals(number: int) -> tuple[str, str]:
    """Returns the ordinal of a number from 1 to 9 as a word and in digits."""
    return ORDINALS[number - 1], f"{number}{('st', 'nd', 'rd')[number - 1] if number < 4 else 'th'}"
