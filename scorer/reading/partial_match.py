"""Finds options of several words that an answer names in its own wording: "the man holding the umbrella"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from scorer.reading.lexicon import Lexicon

LEXICON = Lexicon("naming")
_ANYWHERE = frozenset(LEXICON.entries("ANYWHERE"))
_LITTLE = _ANYWHERE | frozenset(LEXICON.entries("LITTLE"))
"""Words that an answer may put in or leave out without naming another thing, and with these all that name nothing."""
_SHOWN = "(?: (?:in|of|from) (?:the|this) (?:image|picture|photo|scene))"
"""Says nothing but where to look."""
_DESCRIBED = r"(?: (?:an?|the|his|her|its|their) [a-z]{3,})"
"""An attribute: "drives a red car"."""
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_MOST = 12
_LONGEST = 120


class PartialName(NamedTuple):
    """An option by its telling words.

    Attributes:
        stems: The words without their endings; all of them stand where the option is named.
        name: Its text, folded.
        label: Its label.
    """

    stems: tuple[str, ...]
    name: str
    label: str


@lru_cache(maxsize=16384)
def _stem(word: str) -> str:
    """Returns a word without the ending of a verb or a plural: walk for walking."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and (word[-1] == "e" or word[-1] == word[-2]) else word


def telling(text: str) -> list[str]:
    """Returns the words of a lower-case text that name anything."""
    return [word for word in _WORD.findall(text.replace("-", " ")) if word not in _LITTLE]


def _within(few: Sequence[str], many: Sequence[str]) -> bool:
    """Whether all of the few stand among the many, in their order."""
    rest = iter(many)
    return all(word in rest for word in few)


@lru_cache(maxsize=4096)
def partial_names(names: tuple[tuple[str, str], ...]) -> tuple[PartialName, ...]:
    """Returns how to find those options by their telling words that no other option shares.

    Args:
        names: Each option's text, folded, with its label.
    """
    told = [telling(name) for name, _ in names]
    stems = [[_stem(word) for word in words] for words in told]
    found = []
    for place, ((name, label), words) in enumerate(zip(names, told, strict=True)):
        others = [other for index, other in enumerate(stems) if index != place]
        if not 2 <= len(words) <= _MOST or any(_within(stems[place], other) for other in others):
            continue
        if all(word.isascii() and word.isalpha() for word in words):
            found.append(PartialName(tuple(stems[place]), name, label))
    return tuple(found)


@lru_cache(maxsize=4096)
def _pattern(name: str) -> re.Pattern[str]:
    """Returns what finds an option's telling words in lower-case text in their order, with little words between."""
    own = {word for word in _WORD.findall(name) if word in _LITTLE}
    little = "|".join(sorted(_ANYWHERE | own))
    gap = rf"(?: (?:{little})|{_DESCRIBED}|{_SHOWN}){{0,4}} "
    # "Black with a white collar" is not black and white.
    joined = rf"(?: (?:{little})){{0,3}} (?:and|&) (?:(?:{little}) ){{0,3}}"
    pattern, between = "", gap
    for word in _WORD.findall(name):
        if word not in _LITTLE:
            pattern += (between if pattern else "") + _inflected(word)
            between = gap
        elif word == "and":
            between = joined
    return re.compile(rf"\b{pattern}\b")


def _inflected(word: str) -> str:
    """Returns a pattern of a word, in all forms if it is one of a verb: "is riding", "rides"."""
    if not word.endswith("ing") or len(word) < 6:
        return word
    stem = _stem(word)
    return rf"{stem}(?:{stem[-1]}?(?:ing|ed)|e?s|e)?"


def find(low: str, names: Sequence[PartialName]) -> Iterator[tuple[int, int, str]]:
    """Yields where options are named by their telling words: start, end and label.

    Args:
        low: The text in lower case, with blanks for hyphens.
        names: The options.
    """
    for stems, name, label in names:
        # Most options are not named, and a pattern takes longer to make than an answer to read.
        if all(stem in low for stem in stems):
            for match in _pattern(name).finditer(low):
                yield match.start(), match.end(), label


def short_for(text: str, names: Sequence[tuple[str, str]]) -> str:
    """Returns the label of the one option of which a short text says a part, and nothing else; "" if none.

    "A man is fixing a bicycle" says a part of "The man is fixing a bicycle in the garage".
    """
    said = [_stem(word) for word in telling(text.lower())] if len(text) <= _LONGEST else []
    if not said or not (len(said) > 1 or said[0].isalpha()):
        return ""
    stems = [[_stem(word) for word in telling(name)] for name, _ in names]
    labels = {label for (_, label), words in zip(names, stems, strict=True) if _within(said, words)}
    if len(labels) != 1:
        return ""
    label = labels.pop()
    own = {word for (_, other), words in zip(names, stems, strict=True) if other == label for word in words}
    shared = {word for (_, other), words in zip(names, stems, strict=True) if other != label for word in words}
    return label if set(said) & (own - shared) else ""
