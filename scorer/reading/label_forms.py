"""How labels are written, and where a text writes one."""

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
    f"{first}(?:{'|'.join(word[1:] for word in words)})"
    for first, words in groupby(sorted(LEXICON.entries("AFTER_LABEL")), key=itemgetter(0))
)
"""What may follow a label that is no article, by first letters, so that few of them are tried."""
_ANNOUNCING = frozenset(
    ("", *(word for name in ("ANNOUNCING", "LABEL_NOUN", "THING_NOUN") for word in LEXICON.entries(name)))
)
"""All words by which a label is announced."""
_WORDS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_.#")}
_REACH = 80
"""Code points that what announces a label is long, at most, and that the label and what is looked at behind it are."""


class Forms:
    """Every way to write some labels.

    Attributes:
        meanings: The label each form stands for.
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
        """Yields what `pattern.finditer` does, which in ASCII is looked for only where a form stands."""
        if not text.isascii():
            yield from self.pattern.finditer(text)
            return
        done = tried = 0
        for form in self._anywhere.finditer(text):
            place = form.start()
            while done <= place:
                match = self._match(text, place, max(done, tried))
                if not match:
                    tried = place + 1
                    break
                yield match
                done = match.end()

    def _match(self, text: str, place: int, low: int) -> re.Match[str] | None:
        """Returns the first match that begins at `low` at least and at the place of a form at most."""
        bracket = place
        while bracket > max(low, place - 3) and text[bracket - 1] in "([\"'<":
            bracket -= 1
        for start in (*reversed(_announced(text, bracket, low)), *range(bracket, place + 1)):
            match = self.pattern.match(text, start)
            if match:
                return match
        return None


def _announced(text: str, end: int, low: int) -> list[int]:
    """Returns where each of the words begins that may announce what stands at `end`, the last first."""
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
    """Returns a pattern of how the forms begin: their first word, two more where it is the article."""
    keys = sorted({" ".join(name.split(" ")[: 3 if name[:4].lower() == "the " else 1]) for name in meanings})
    begins = {re.escape(first): list(words) for first, words in groupby(keys, key=itemgetter(0))}
    forms = "|".join(
        rf"(?<={first})(?:{'|'.join(re.escape(word[1:]) for word in words)})" for first, words in begins.items()
    )
    return re.compile(
        rf"[{''.join(begins)}](?:(?<![0-9A-Za-z].)|(?i:(?<=option.)|(?<=choice.)))(?:{forms})(?![0-9A-Za-z_])"
    )


def _spelled(words: Sequence[str]) -> str:
    """Returns a pattern of any of some words, letter by letter: the first of them where one begins another."""
    first, last = min(words), max(words)
    shared = next(
        (place for place, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first)
    )
    begins: dict[str, list[str]] = {}
    for word in words:
        begins.setdefault(word[shared : shared + 1], []).append(word[shared:])
    rests = "|".join(map(_spelled, begins.values())) if len(words) > 1 else ""
    return re.escape(first[:shared]) + (f"(?:{rests})" if rests else "")


@lru_cache(maxsize=256)
def forms_of(names: tuple[str, ...], values: tuple[str, ...] = ()) -> Forms:
    """Returns the forms of labels, in any case and by place, each standing for itself or for the value at its place."""
    pairs = list(zip(names, values or names, strict=True))
    by_place = {
        form: value
        for place, value in (*by_ordinal(tuple(value for _, value in pairs)).items(), ("last", pairs[-1][1]))
        for noun in ("option", "choice")
        for name in (f"{place} {noun}", f"the {place} {noun}")
        for form in (name, name.capitalize())
    }
    by_place |= {f"the {place} one": value for place, value in by_ordinal(tuple(value for _, value in pairs)).items()}
    return Forms(
        by_place | {form: value for name, value in reversed(pairs) for form in (name.lower(), name.upper(), name)}
    )


@lru_cache(maxsize=256)
def by_ordinal(values: tuple[str, ...]) -> dict[str, str]:
    """Returns some labels by the ordinals of their places."""
    return {ordinal: value for number, value in enumerate(values[:9], 1) for ordinal in ordinals(number)}


def ordinals(number: int) -> tuple[str, str]:
    """Returns the ordinal of a number from 1 to 9 as a word and in digits."""
    return ORDINALS[number - 1], f"{number}{('st', 'nd', 'rd')[number - 1] if number < 4 else 'th'}"
