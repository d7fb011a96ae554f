"""Removes an answer's typography, and maps spans of the folded text back to the answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import re2

from scorer.reading.lexicon import Lexicon

LEXICON = Lexicon("typography")


def _table() -> dict[int, str]:
    table: dict[int, str] = {}
    for code in (*range(0xFF01, 0xFF5F), *range(0x1D400, 0x1D800), *range(0x2460, 0x24EA), *range(0x1F110, 0x1F12A)):
        plain = unicodedata.normalize("NFKC", chr(code)).strip("()")
        if len(plain) == 1 and plain.isascii():
            table[code] = plain
    for first, letter in ((0x1F130, "A"), (0x1F150, "A"), (0x1F170, "A"), (0x2776, "1"), (0x2780, "1"), (0x278A, "1")):
        size = 26 if letter == "A" else 9
        table.update({first + i: chr(ord(letter) + i) for i in range(size)})
    for zero in (0x0660, 0x06F0, 0x0966, 0x09E6):
        table.update({zero + i: str(i) for i in range(10)})
    table.update({ord(char): to for chars, to in LEXICON.mapping("SIGNS").items() for char in chars})
    table.update(dict.fromkeys(map(ord, LEXICON.source("ORNAMENTS")), " "))
    for code in (*range(0x2600, 0x2700), *range(0x1F300, 0x1FB00)):
        table.setdefault(code, " ")
    del table[ord("`")]
    return table


_TABLE = _table()

_SYMBOLS = {symbol: f" {meaning} " for symbol, meaning in LEXICON.mapping("SYMBOLS").items()}
_CYRILLIC = str.maketrans("АБВС", "ABBC")
_CONSTANT = {
    **{"box": " boxed:", "boxed": " boxed:", "unbox": ")", "open": "(", "close": ")", "times": " x ", "arrow": " → "},
    **{"escape": "\n", "line": "\n", "gone": "", "escaped": "", "pi": "π"},
}
"""Group of a markup pattern -> its replacement; a blank for all others."""

_UNTIDY = r"[\n ][\n ]|[(\[] | [.,:;!?)\]]|\A[\n ]|[\n ]\z|[\t\r\v\f\x1c-\x1f]"


def _set_of(*patterns: str) -> re2.Set:
    patterns_set = re2.Set.SearchSet()
    for pattern in patterns:
        patterns_set.Add(pattern)
    patterns_set.Compile()
    return patterns_set


# One pass that tells which of the slower patterns below can match a text of ASCII; of any other text it tells only
# degrees and fractions.
_TYPOGRAPHY = _set_of(
    r"\^ ?\{? ?\\+circ|degree",
    r"frac",
    r"(?:\A|\n)[ \t*]{0,8}[#>+-]",
    r"[\\{}$<*`_]|~~|&nbsp;|\[/?INST\]|[-=][-=]?>",
    _UNTIDY,
)
_DEGREES, _FRACTIONS, _HEADS_OR_ITEMS, _MARKUP, _BLANKS = range(5)
_IS_UNTIDY = _set_of(_UNTIDY)


def _junk(match: re.Match[str]) -> str:
    """Returns the replacement of a sign, without a blank next to another or before a full stop."""
    kind = match.lastgroup or ""
    if kind == "cyrillic":
        return match[0].translate(_CYRILLIC)
    new = _SYMBOLS[match["symbol"]] if kind == "symbol" else _CONSTANT.get(kind, " ")
    text, (start, end) = match.string, match.span()
    if new == " " and (start == 0 or text[start - 1].isspace()):
        return ""
    return new.rstrip(" ") if end == len(text) or text[end] in ".,:;!?)] \n" else new


def _space(match: re.Match[str]) -> str:
    run = match[0]
    if "\n" in run:
        return "\n" if match.start() and match.end() < len(match.string) else ""
    following = match.string[match.end() : match.end() + 1]
    before = match.string[match.start() - 1 : match.start()] if match.start() else ""
    return "" if following in ".,:;!?)]" or before in "([" else " "


class Folded:
    """A text without its typography, and the cuts that lead back to the original.

    Full-width, mathematical and circled characters become plain ones; Markdown, LaTeX and
    HTML markup goes (struck-out words with it, a box becomes the word "boxed:"); runs of
    blanks become one, lines keep one break between them.

    Attributes:
        text: The folded text.
    """

    def __init__(self, source: str) -> None:
        # For every pass of replacements: characters removed in all, and (start, end, new length) of every cut.
        self._stages: list[tuple[int, list[tuple[int, int, int]]]] = []
        text = source if source.isascii() else source.translate(_TABLE)
        kinds = _TYPOGRAPHY.Match(text) or []
        if not text.isascii():
            kinds = [*kinds, _HEADS_OR_ITEMS, _MARKUP, _BLANKS]
        if _HEADS_OR_ITEMS in kinds:
            text = self._replaced(LEXICON.HEAD, lambda match: "\n" if match.start() else "", text)
        if _DEGREES in kinds:
            text = self._replaced(LEXICON.DEGREE, lambda _: "°", text)
        if _FRACTIONS in kinds:
            text = self._replaced(LEXICON.FRACTION, lambda match: f"{match[1]}/{match[2]}", text)
        if _MARKUP in kinds:
            text = self._replaced(LEXICON.JUNK, _junk, text)
        if kinds and not (text.isascii() and not _IS_UNTIDY.Match(text)):
            text = self._replaced(LEXICON.SPACE, _space, text)
        self.text = text

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the range of the source for a non-empty range of the folded text."""
        return self._origin(start), self._origin(end - 1) + 1

    def _origin(self, position: int) -> int:
        """Returns a character's position in the source; walks cuts from the end, since answers are mostly near it."""
        for removed, cuts in reversed(self._stages):
            position += removed
            for start, end, length in reversed(cuts):
                if position >= end:
                    break
                position -= end - start - length
                if position >= start:
                    position = min(position, end)
                    break
        return position

    def _replaced(self, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str) -> str:
        """Replaces all matches, and records start, end and new length of every cut for `span`."""
        cuts: list[tuple[int, int, int]] = []

        def cut(match: re.Match[str]) -> str:
            new = replace(match)
            cuts.append((*match.span(), len(new)))
            return new

        replaced = pattern.sub(cut, text)
        if cuts:
            self._stages.append((len(text) - len(replaced), cuts))
        return replaced


def fold(text: str) -> str:
    """Returns a short text, such as an option, folded, in lower case and stripped."""
    return Folded(text).text.strip().lower()
