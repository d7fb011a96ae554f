"""Folds an answer's typography away, and maps what was found back to the answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection
from typing import NamedTuple

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
    signs = {
        "‘’‚ʼ′`´": "'",
        "“”„«»「」『』〝〞″": '"',
        "（【〔［〈《": "(",
        "）】〕］〉》": ")",
        "。．｡": ".",
        "，、﹐،､": ",",
        "：﹕︰": ":",
        "；؛": ";",
        "？؟": "?",
        "！¡": "!",
        "¿": " ",
        "‐‑‒–—―−": "-",
        "→⇒➜➡⟹⟶➔➞": "→",
        "✅✔☑🗸👍": "✓",
        "❌✗✘❎🚫👎": "✗",
        "×✕": "x",
        "İ": "I",
        "…": ".",
        "👉☞➤►▶•●▪◦■□": " ",
    }
    for chars, to in signs.items():
        table.update({ord(char): to for char in chars})
    for code in (*range(0x2600, 0x2700), *range(0x1F300, 0x1FB00)):
        table.setdefault(code, " ")
    del table[ord("`")]
    return table


_TABLE = _table()

_SYMBOLS = {
    "therefore": " therefore ",
    "implies": " → ",
    "rightarrow": " → ",
    "Rightarrow": " → ",
    "to": " → ",
    "checkmark": " ✓ ",
    "times": " x ",
    "cdot": " x ",
    "neq": " not ",
    "ne": " not ",
    "lnot": " not ",
    "neg": " not ",
}
_LONG = 400
_SIGNS = "\\{}$&[<>~*`_"
_CYRILLIC = {"А": "A", "Б": "B", "В": "B", "С": "C"}
_CONSTANT = {
    **{"box": " boxed:", "boxed": " boxed:", "unbox": ")", "open": "(", "close": ")", "times": " x ", "arrow": " → "},
    **{"escape": "\n", "line": "\n", "gone": "", "escaped": ""},
}
"""What markup stands for; a blank where nothing is named."""

_UNTIDY = r"[\n ][\n ]|[(\[] | [.,:;!?)\]]|\A[\n ]|[\n ]\z|[\t\r\v\f\x1c-\x1f]"


def _set_of(*patterns: str) -> re2.Set:
    found = re2.Set.SearchSet()
    for pattern in patterns:
        found.Add(pattern)
    found.Compile()
    return found


# Finds whatever the patterns above do in a text of ASCII; in another, degrees and fractions alone.
_TYPOGRAPHY = _set_of(
    r"\^ ?\{? ?\\+circ|degree",
    r"frac",
    r"(?:\A|\n)[ \t*]{0,8}[#>+-]",
    r"[\\{}$<*`_]|~~|&nbsp;|\[/?INST\]|[-=][-=]?>",
    _UNTIDY,
)
_DEGREES, _FRACTIONS, _HEADS_OR_ITEMS, _MARKUP, _BLANKS = range(5)
_IS_UNTIDY = _set_of(_UNTIDY)

_Cut = tuple[int, int, int]
"""What was replaced: its beginning and its end before, and how long what stands there now is."""


class _Stage(NamedTuple):
    """What one pattern replaced.

    Attributes:
        cuts: Tells every cut, in order.
        removed: How many characters less there are.
        whole: From where on nothing was replaced.
    """

    cuts: Callable[[], list[_Cut]]
    removed: int
    whole: int


def _fraction(match: re.Match[str]) -> str:
    return f"{match[1]}/{match[2]}"


def _first_sign(text: str) -> int:
    """Returns from where on there is markup, in a long text: of an arrow, the head is looked for."""
    if len(text) < _LONG or not text.isascii():
        return 0
    return max(min((place for place in map(text.find, _SIGNS) if place >= 0), default=0) - len("=="), 0)


def _junk(match: re.Match[str]) -> str:
    """Returns what a sign stands for; no second blank beside another, and none before a full stop."""
    kind = match.lastgroup or ""
    if kind == "cyrillic":
        return _CYRILLIC[match[0]]
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
    """A text without its typography.

    Full-width, mathematical and circled characters become plain ones; Markdown, LaTeX and
    HTML markup goes (struck-out words with it, a box becomes the word "boxed:"); runs of
    blanks become one, lines keep one break between them.

    Attributes:
        text: The folded text.
    """

    def __init__(self, source: str) -> None:
        self._stages: list[_Stage] = []
        text = source if source.isascii() else source.translate(_TABLE)
        found = _TYPOGRAPHY.Match(text) or []
        if not text.isascii():
            found = [*found, _HEADS_OR_ITEMS, _MARKUP, _BLANKS]
        self.text = self._plain(text, found) if found else text

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the range of the source that a non-empty range of the folded text came from."""
        first, last = start, end - 1
        for stage in reversed(self._stages):
            first, last = _origin(stage, first), _origin(stage, last)
        return first, last + 1

    def _plain(self, text: str, found: Collection[int]) -> str:
        """Returns the text without the kinds of typography that were found in it."""
        if _HEADS_OR_ITEMS in found:
            text = self._all_replaced(LEXICON.HEAD, "\n", self._all_replaced(LEXICON.FIRST_HEAD, "", text))
        if _DEGREES in found:
            text = self._all_replaced(LEXICON.DEGREE, "°", text)
        if _FRACTIONS in found:
            text = self._replaced(LEXICON.FRACTION, _fraction, text)
        if _MARKUP in found:
            text = self._replaced(LEXICON.JUNK, _junk, text, _first_sign(text))
        text = self._all_replaced(LEXICON.BREAKS, "\n", text)
        tidy = text.isascii() and not _IS_UNTIDY.Match(text)
        return text if tidy else self._replaced(LEXICON.SPACE, _space, text)

    def _all_replaced(self, pattern: re.Pattern[str], new: str, text: str) -> str:
        """Returns the text with the same in place of every match; the cuts are found when they are needed."""
        pieces = pattern.split(text)
        if len(pieces) == 1:
            return text
        replaced = new.join(pieces)

        def cuts() -> list[_Cut]:
            return [(*match.span(), len(new)) for match in pattern.finditer(text)]

        self._stages.append(_Stage(cuts, len(text) - len(replaced), len(text) - len(pieces[-1])))
        return replaced

    def _replaced(
        self, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str, start: int = 0
    ) -> str:
        """Returns the text with every match from `start` on replaced; notes what was cut where."""
        pieces: list[str] = []
        cuts: list[_Cut] = []
        done = 0
        for match in pattern.finditer(text, start):
            start, end = match.span()
            new = replace(match)
            pieces += (text[done:start], new)
            cuts.append((start, end, len(new)))
            done = end
        if not cuts:
            return text
        pieces.append(text[done:])
        replaced = "".join(pieces)
        self._stages.append(_Stage(lambda: cuts, len(text) - len(replaced), done))
        return replaced


def _origin(stage: _Stage, place: int) -> int:
    """Returns where a character stood before a stage: looked for from the end, near which answers stand."""
    place += stage.removed
    if place >= stage.whole:
        return place
    for start, end, length in reversed(stage.cuts()):
        if place >= end:
            break
        place -= end - start - length
        if place >= start:
            return min(place, end)
    return place


def fold(text: str) -> str:
    """Returns a short text, such as an option, folded, with neither case nor blanks around."""
    return Folded(text).text.strip().lower()
