# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""Folds an answer's typography away, and maps what was found back to the answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable


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

_COMMANDS = r"text\w*|math[a-z]+|boldsymbol|bm|operatorname|displaystyle|[lL]arge|LARGE|huge|Huge|bf|rm|it|sf|tt|left|right|big|Big|quad|qquad|underline|color|emph|hspace|vspace"
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
_JUNK = re.compile(
    rf"""
      (?P<struck>~~[^~\n]{{1,300}}~~|<(?:s|del|strike)>[^<\n]{{1,300}}</(?:s|del|strike)>)
    | (?P<boxed>\\+(?:boxed|fbox|framebox|colorbox)\s*(?:\{{[a-z]+\}})?\s*(?=[{{A-Za-z0-9(])|<\|begin_of_box\|>)
    | (?P<escape>\\n(?![a-z]))
    | (?P<command>\\+(?:{_COMMANDS})(?![A-Za-z]))
    | \\+(?P<symbol>{"|".join(_SYMBOLS)})(?![A-Za-z])
    | (?P<open>\{{)
    | (?P<close>\}}|<\|end_of_box\|>)
    | (?P<blank>\\+[()\[\],;:!\s]|\$+|&nbsp;|</?(?:b|i|u|strong|em|p|span|div|center|code|pre|font|mark|sup|sub|h[1-6])\b[^<>]{{0,80}}>
        |\[/?INST\]|<\|?/?(?:s|im_end|im_start|endoftext|eot_id|end_of_text|end_of_turn|end|pad|eos)\|?>)
    | (?P<line><br\s*/?>|</?(?:li|ul|ol|tr)>)
    | (?P<gone>[​-‏‪-‮⁠-⁤﻿︀-️⃣­]+|\\+(?=[*_`"'#&%]))
    | (?P<times>(?<=\d)[ ]?\*[ ]?(?=\d))
    | (?P<degree>[ ]?\^[ ]?\{{?[ ]?\\+circ(?![A-Za-z])[ ]?\}}?|(?<=\d)[ ]?degrees?(?![A-Za-z]))
    | (?P<arrow>[-=]{{1,2}}>)
    | (?P<head>(?m:^)[ \t*]{{0,8}}(?:[#>]+|[-+•](?=[ \t]))[ \t]*)
    | (?P<stars>\*+)
    | (?P<ticks>`+)
    | (?P<under>(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9_]))
    | (?P<cyrillic>(?:(?<=[:(])|(?<=:[ ])|(?<=[^\W\dA-Za-z]{3}[ ])|\A)[АБВС](?=[).\s]*(?:\n|\Z)))
    """,
    re.VERBOSE,
)
_CYRILLIC = {"А": "A", "Б": "B", "В": "B", "С": "C"}
_CONSTANT = {
    "struck": " ",
    "boxed": " boxed:",
    "escape": "\n",
    "command": " ",
    "open": "(",
    "close": ")",
    "blank": " ",
    "line": "\n",
    "gone": "",
    "times": " x ",
    "degree": "°",
    "arrow": " → ",
    "stars": " ",
    "ticks": " ",
    "under": " ",
    "head": "",
}
_SPACE = re.compile(r"[^\S\n]*\n\s*|[^\S\n]+(?=[.,:;!?)\]]|\n|\Z)|(?<=[(\[])[^\S\n]+|[^\S\n]+")
_JUNK_SIGN = re.compile(r"[\\{}[$&<>*_`~#+•АБВС​-‏‪-‮⁠-⁤﻿︀-️⃣­-]|[0-9] ?degree")
_SPACE_SIGN = re.compile(r"[^\S ]| (?=[\s.,:;!?)\]])|[(\[] |\A | \Z")


def _junk(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "cyrillic":
        return _CYRILLIC[match[0]]
    return _SYMBOLS[match["symbol"]] if kind == "symbol" else _CONSTANT[kind]


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
        self._source = source
        flat = source if source.isascii() else source.translate(_TABLE)
        self._flat = flat
        self._clean = _JUNK.sub(_junk, flat) if _JUNK_SIGN.search(flat) else flat
        self.text = _SPACE.sub(_space, self._clean) if _SPACE_SIGN.search(self._clean) else self._clean

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the range of the source that a non-empty range of the folded text came from."""
        junk = _cuts(_JUNK, _junk, self._flat, self._clean)
        space = _cuts(_SPACE, _space, self._clean, self.text)
        first = _origin(junk, _origin(space, start))
        last = _origin(junk, _origin(space, end - 1))
        return first, last + 1


def _cuts(
    pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], before: str, after: str
) -> list[tuple[int, int, int]]:
    if before is after:
        return []
    cuts = []
    shift = 0
    for match in pattern.finditer(before):
        size = len(replace(match))
        cuts.append((match.start() - shift, match.start(), match.end()))
        shift += len(match[0]) - size
        cuts.append((match.end() - shift, match.end(), match.end()))
    return cuts


def _origin(cuts: list[tuple[int, int, int]], place: int) -> int:
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) // 2
        if cuts[middle][0] <= place:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return place
    start, origin, end = cuts[low - 1]
    return min(origin + place - start, end) if end > origin else origin + place - start


def fold(text: str) -> str:
    """Returns a short text, such as an option, folded, with neither case nor blanks around."""
    return Folded(text).text.strip().lower()
