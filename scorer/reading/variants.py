"""The ways in which people write an option of one or two words."""

from __future__ import annotations

import re
from functools import lru_cache

from scorer.reading.lexicon import Lexicon
from scorer.reading.normalize import fold
from scorer.reading.numbers import WORDS, value_of

LEXICON = Lexicon("two_way")
_SAME = [entry.split(", ") for entry in LEXICON.entries("SAME")]
_GROUP = {word: words for words in _SAME for word in words}
_CARDINAL = {value: word for word, value in WORDS.items()}


def _word_variants(word: str) -> set[str]:
    forms = {word, *_GROUP.get(word, ())}
    value = value_of(word)
    if value is not None and value in _CARDINAL:
        forms |= {str(value), _CARDINAL[value]}
    if word.isalpha() and len(word) > 3:
        forms.add(word[:-1] if word.endswith("s") and not word.endswith("ss") else word + "s")
    return forms


def _phrase_variants(option: str) -> set[str]:
    words = re.split(r"[ /]+", option)
    if len(words) == 1:
        return _word_variants(option)
    forms = {option, option.replace(" ", "-"), option.replace(" ", "")}
    if len(words) == 2:
        pairs = {(a, b) for a in _word_variants(words[0]) for b in _word_variants(words[1])}
        joined = {f"{a} {b}" for a, b in pairs}
        if words[0] in _PLACES and words[1] in _PLACES:
            joined |= {f"{b} {a}" for a, b in pairs} | {f"{a}{b}" for a, b in pairs}
            joined |= (
                {f"{a} and {b}" for a, b in pairs} | {f"{b} and {a}" for a, b in pairs} | {f"{a}/{b}" for a, b in pairs}
            )
        forms |= joined
    return forms


_PLACES = {word for group in _SAME[:4] for word in group} | {"down", "up"}


@lru_cache(maxsize=4096)
def names_of(options: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns every way to write either of two options, with the option meant.

    A way that could mean both is left out; so is a variant that equals a word of the other.
    """
    plain = tuple(fold(option).rstrip(".") for option in options)
    own = [_phrase_variants(option) for option in plain]
    words = [set(re.split(r"[ /-]+", option)) for option in plain]
    names: list[tuple[str, str]] = []
    for place, option in enumerate(options):
        other = 1 - place
        forms = {form for form in own[place] if form == plain[place] or form not in own[other]}
        if len(words[place]) > 1 or len(words[other]) > 1:
            telling = {
                word for word in words[place] - words[other] if len(word) > 2 or not word.isalpha() or len(word) == 1
            }
            forms |= {form for word in telling - _STOP for form in _word_variants(word) if form not in own[other]}
        forms = {form for form in forms if form == plain[place] or not (set(form.split()) <= words[other])}
        names += [(form.replace("-", " "), option) for form in forms if form]
    taken: dict[str, set[str]] = {}
    for form, option in names:
        taken.setdefault(form, set()).add(option)
    return tuple((form, option) for form, option in dict.fromkeys(names) if len(taken[form]) == 1)


_STOP = {"to", "the", "a", "an", "of", "in", "on", "side", "letter", "number"}
