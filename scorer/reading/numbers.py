"""Whole numbers as digits and in words."""

from __future__ import annotations

import re

_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = {word: value for value, word in enumerate(_UNITS)} | {word: 10 * (2 + i) for i, word in enumerate(_TENS)}
"""English words for 0 to 20 and the tens."""
ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
"""English ordinals from the first on."""
_FOREIGN = {
    0: "cero null nul ноль",
    1: "uno una ein eine eins une um uma один одна",
    2: "dos zwei deux dois duas due два две",
    3: "tres drei trois três tre три",
    4: "cuatro vier quatre quatro quattro четыре",
    5: "cinco fünf cinq cinque пять",
    6: "seis sechs sei шесть",
    7: "siete sieben sept sete sette семь",
    8: "ocho acht huit oito otto восемь",
    9: "nueve neun neuf nove девять",
    10: "diez zehn dix dez dieci десять",
    11: "once elf onze undici одиннадцать",
    12: "doce zwölf douze doze dodici двенадцать",
    13: "trece dreizehn treize treze tredici тринадцать",
}
FOREIGN = {word: value for value, words in _FOREIGN.items() for word in words.split()}
"""Words of other European languages."""
HAN_DIGITS = "零一二三四五六七八九"
"""Chinese digits, by value."""
_HAN = {char: value for value, char in enumerate(HAN_DIGITS)} | {"两": 2, "兩": 2, "〇": 0}
HAN = "零〇一二两兩三四五六七八九十"
"""Chinese and Japanese digits."""

_TEN = "|".join(_TENS)
_UNIT = "|".join(_UNITS[1:10])
WORD_PATTERN = rf"(?:{_TEN})[ -](?:{_UNIT})|{'|'.join(sorted(WORDS, key=len, reverse=True))}"
"""Pattern of an English number word below a hundred."""


def value_of(word: str) -> int | None:
    """Returns the number a word stands for, None if it stands for none."""
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
