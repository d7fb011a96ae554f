"""Finds options of several words in other wording: "the man holding the umbrella"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from scorer.reading.lexicon import Lexicon

LEXICON = Lexicon("naming")
_ANYWHERE = frozenset(LEXICON.entries("ANYWHERE"))
_LITTLE = _ANYWHERE | frozenset(LEXICON.entries("LITTLE"))
"""Words that an answer may insert or omit without naming another thing; and these with all other empty words."""
_SHOWN = "(?: (?:in|of|from) (?:the|this) (?:image|picture|photo|scene))"
"""A phrase that only points at the image."""
_DESCRIBED = r"(?: (?:an?|the|his|her|its|their) [a-z]{3,})"
"""An attribute: "drives a red car"."""
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_MOST = 12
_LONGEST = 120


class PartialName(NamedTuple):
    """An option and its telling words.

    Attributes:
        stems: Its telling words without endings; a mention holds all of them.
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
    """Returns the telling words of a lower-case text, which are all but empty words such as articles."""
    return [word for word in _WORD.findall(text.replace("-", " ")) if word not in _LITTLE]


def _within(few: Sequence[str], many: Sequence[str]) -> bool:
    """Returns true if `few` is a subsequence of `many`."""
    rest = iter(many)
    return all(word in rest for word in few)


@lru_cache(maxsize=4096)
def partial_names(names: tuple[tuple[str, str], ...]) -> tuple[PartialName, ...]:
    """Returns the options that telling words identify: those whose words are not all in another option.

    Args:
        names: The folded texts of the options, with their labels.
    """
    all_tokens = [telling(name) for name, _ in names]
    stems = [[_stem(word) for word in tokens] for tokens in all_tokens]
    partial = []
    for index, ((name, label), tokens) in enumerate(zip(names, all_tokens, strict=True)):
        others = [*stems[:index], *stems[index + 1 :]]
        if not 2 <= len(tokens) <= _MOST or any(_within(stems[index], other) for other in others):
            continue
        if all(word.isascii() and word.isalpha() for word in tokens):
            partial.append(PartialName(tuple(stems[index]), name, label))
    return tuple(partial)


@lru_cache(maxsize=4096)
def _pattern(name: str) -> re.Pattern[str]:
    """Returns a pattern of an option's telling words in order, with little words between them, for lower-case text."""
    little_of_name = {word for word in _WORD.findall(name) if word in _LITTLE}
    little = "|".join(sorted(_ANYWHERE | little_of_name))
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
    """Returns a pattern of a word; of "-ing" verbs all forms: "is riding", "rides"."""
    if not word.endswith("ing") or len(word) < 6:
        return word
    stem = _stem(word)
    return rf"{stem}(?:{stem[-1]}?(?:ing|ed)|e?s|e)?"


def find(low: str, names: Sequence[PartialName]) -> Iterator[tuple[int, int, str]]:
    """Yields start, end and label of options that are named by their telling words.

    Args:
        low: The text in lower case, with blanks for hyphens.
        names: The options.
    """
    for stems, name, label in names:
        # Most options are not named, and compiling a pattern takes longer than reading an answer.
        if all(stem in low for stem in stems):
            for match in _pattern(name).finditer(low):
                yield match.start(), match.end(), label


def short_for(text: str, names: Sequence[tuple[str, str]]) -> str:
    """Returns the label of the only option of which a short text is a part; "" if there is none.

    "A man is fixing a bicycle" is a part of "The man is fixing a bicycle in the garage".
    """
    text_stems = [_stem(word) for word in telling(text.lower())] if len(text) <= _LONGEST else []
    if not text_stems or not (len(text_stems) > 1 or text_stems[0].isalpha()):
        return ""
    stems = [[_stem(word) for word in telling(name)] for name, _ in names]
    labels = {label for (_, label), option in zip(names, stems, strict=True) if _within(text_stems, option)}
    if len(labels) != 1:
        return ""
    label = labels.pop()
    stems_of_option = {
        word for (_, other), option in zip(names, stems, strict=True) if other == label for word in option
    }
    shared = {word for (_, other), option in zip(names, stems, strict=True) if other != label for word in option}
    return label if set(text_stems) & (stems_of_option - shared) else ""
