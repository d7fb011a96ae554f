"""key_information: an answer about a document is right if it states the target's value."""

from __future__ import annotations

import re

from scorer.rule import Rule
from scorer.rules.contains_word import canonical, search

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: str(value) for value, word in enumerate(_WORDS)}
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBERS)})\b", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(?:a|an|the)\s+", re.IGNORECASE)
_CURRENCY = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2,3})(?=\d+\.\d\d(?!\d))")
"""A currency's letters before an amount: RM25.90."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def _prepare(text: str) -> str:
    """Returns the text with numbers in digits, without thousands separators and articles."""
    text = _CURRENCY.sub(r"\1 ", _THOUSANDS.sub("", canonical(text)))
    return _NUMBER_WORD.sub(lambda word: _NUMBERS[word.group().lower()], _ARTICLE.sub("", text))


RULE = Rule(
    name="key_information",
    description=(
        "Whether the answer states any target's value. As contains_word; besides, articles, thousands separators and "
        "currency signs do not matter, and number words up to ten are their digits. $12.50 is found in itself."
    ),
    read=lambda request: search(request, _prepare),
    version=3,
)
