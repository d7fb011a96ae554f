"""A prefilter that tells in one pass which of many patterns may match a text.

Readers try dozens of cues on a sentence that has one or two. So every pattern is loosened until
RE2 accepts it, RE2 runs all of them at once in linear time, and only those that may match are tried
with `re`. A loosened pattern matches wherever the original does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import re2

from scorer.reading.lexicon import WORD

_EDGES = (f"(?<![{WORD}])", f"(?![{WORD}])")
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")
_COUNT = re.compile(r"\{(\d*),?\d*\}")
_FOREIGN = re.compile("[^\x00-\x7f→°✓✗]")
# RE2's \w and \s are ASCII: a text with other letters skips the prefilter.
_MEMORY = 64 << 20
_ANYTHING = -1


class Prefilter:
    """Many patterns that are searched at once in folded text; compiled on first use.

    Args:
        patterns: Returns the patterns.
        anchored: Whether they are matched at the beginning of the text.
    """

    def __init__(self, patterns: Callable[[], Iterable[re.Pattern[str]]], *, anchored: bool = False) -> None:
        self._patterns = patterns
        self._anchored = anchored

    @cached_property
    def _compiled(self) -> tuple[Any, dict[int, int]]:
        """The patterns as one set, and their bits by the patterns' ids."""
        options = re2.Options()
        options.case_sensitive = False
        options.max_mem = _MEMORY
        patterns = re2.Set.MatchSet(options) if self._anchored else re2.Set.SearchSet(options)
        bits = {id(pattern): 1 << patterns.Add(loosened(pattern)) for pattern in self._patterns()}
        patterns.Compile()
        return patterns, bits

    @cached_property
    def _nothing(self) -> Seen:
        return Seen("", self._compiled[1], self._matched(""))

    def __call__(self, text: str) -> Seen:
        """Returns the text with the patterns that may match it."""
        return Seen(text, self._compiled[1], self._matched(text)) if text else self._nothing

    def bits(self, *patterns: re.Pattern[str]) -> int:
        """Returns the bits of some patterns; any of them may match if `Seen.hits & bits`."""
        bits = 0
        for pattern in patterns:
            bits |= self._compiled[1][id(pattern)]
        return bits

    def _matched(self, text: str) -> int:
        if not text.isascii() and _FOREIGN.search(text):
            return _ANYTHING
        hits = 0
        for number in self._compiled[0].Match(text.encode()) or ():
            hits |= 1 << number
        return hits


class Seen:
    """A text, and the patterns of a prefilter that may match it.

    Attributes:
        text: The text.
        hits: The bits of the patterns that may match (see `Prefilter.bits`).
    """

    __slots__ = ("_bits", "hits", "text")

    def __init__(self, text: str, bits: dict[int, int], hits: int) -> None:
        self.text = text
        self.hits = hits
        self._bits = bits

    def may(self, pattern: re.Pattern[str]) -> bool:
        """Returns true if a pattern of the prefilter may match the text; if not, it matches no piece of it either."""
        return bool(self.hits & self._bits[id(pattern)])

    def search(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Returns the first match of a pattern of the prefilter."""
        return pattern.search(self.text) if self.hits & self._bits[id(pattern)] else None

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Returns the match of a pattern of the prefilter at the beginning."""
        return pattern.match(self.text) if self.hits & self._bits[id(pattern)] else None

    def piece(self, text: str) -> Seen:
        """Returns a piece of the text, cut at the edge of a word, with the hits of the text."""
        return Seen(text, self._bits, self.hits)


def loosened(pattern: re.Pattern[str]) -> str:
    """Returns an RE2 pattern that matches wherever `pattern` does, for folded text of ASCII and signs.

    Assertions go, except for the edges of words and the end; counted repetitions become open.
    """
    source = pattern.pattern
    parts: list[str] = []
    position = 0
    while position < len(source):
        end = _after(source, position)
        piece = source[position:end]
        if piece in _LOOKS:
            end = _closing(source, position)
            piece = r"\b" if source[position:end] in _EDGES else ""
        elif piece == "{" and (count := _COUNT.match(source, position)):
            end = count.end()
            piece = "*" if count[1] in ("", "0") else "+"
        elif piece in ("$", r"\Z"):
            piece = r"\n?\z"
        elif piece in ("^", r"\A") or (piece.isspace() and pattern.flags & re.VERBOSE):
            piece = ""
        parts.append(piece)
        position = end
    return "".join(parts)


def _after(source: str, position: int) -> int:
    """Returns the end of the escape, class, assertion or character at a position."""
    if source[position] == "\\":
        return position + 2
    if source.startswith(_LOOKS, position):
        return position + (4 if source[position + 2] == "<" else 3)
    if source[position] != "[":
        return position + 1
    position += 2 if source[position + 1] == "^" else 1
    position += source[position] == "]"
    while source[position] != "]":
        position += 2 if source[position] == "\\" else 1
    return position + 1


def _closing(source: str, position: int) -> int:
    """Returns the end of the group that begins at a position."""
    depth = 0
    while True:
        depth += (source[position] == "(") - (source[position] == ")")
        position = _after(source, position)
        if depth == 0:
            return position
