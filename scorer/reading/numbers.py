"""Whole numbers, as digits and as words."""

from __future__ import annotations

import re

from scorer.reading.lexicon import Lexicon

_TABLE = Lexicon("numbers")
WORDS, FOREIGN, _HAN = (
    {word: int(value) for word, value in _TABLE.mapping(name).items()} for name in ("ENGLISH", "FOREIGN", "HAN")
)
"""English words for 0 to 20 and the tens, words of other European languages, Chinese and Japanese digits."""
ORDINALS = _TABLE.entries("ORDINALS")
"""English ordinals from the first on."""
HAN_DIGITS = "零一二三四五六七八九"
"""Chinese digits, by value."""
HAN = "零〇一二两兩三四五六七八九十"
"""Chinese and Japanese digits."""

_TENS = [word for word, value in WORDS.items() if value >= 20]
_UNITS = list(WORDS)[:20]
_TEN = "|".join(_TENS)
_UNIT = "|".join(_UNITS[1:10])
WORD_PATTERN = rf"(?:{_TEN})[ -](?:{_UNIT})|{'|'.join(sorted(WORDS, key=len, reverse=True))}"
"""Pattern of an English number word below a hundred."""


def value_of(word: str) -> int | None:
    """Returns the number of a word; None for any other word."""
    word = word.lower()
    if word.isascii() and word.isdigit():
        return int(word)
    if word in WORDS:
        return WORDS[word]
    if word in FOREIGN:
        return FOREIGN[word]
    parts = re.split(r"[ -]", word)
    if len(parts) == 2 and parts[0] in _TENS and parts[1] in WORDS:
        return WORDS[parts[0]] + WORDS[parts[1]]
    return _han(word)


def _han(word: str) -> int | None:
    if not word or any(char not in HAN for char in word):
        return None
    if "十" not in word:
        return _HAN[word] if len(word) == 1 else None
    tens, _, units = word.partition("十")
    if len(tens) > 1 or len(units) > 1 or "十" in units:
        return None
    return (_HAN[tens] if tens else 1) * 10 + (_HAN[units] if units else 0)
