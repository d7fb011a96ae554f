"""Tells in one pass which of many patterns can occur in a text at all.

A sentence is asked for dozens of cues and has one or two. So each pattern is loosened until
RE2 takes it, all of them run at once in linear time, and only those that may match are tried
in earnest. A loosened pattern matches wherever the pattern itself does.
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
# RE2's words and blanks are those of ASCII: other letters cannot be screened.
_MEMORY = 64 << 20
_ANYTHING = -1


class Prefilter:
    """Many patterns, looked for at once in folded text; they are compiled when the first text is.

    Args:
        patterns: Returns the patterns.
        anchored: Whether they are matched at the beginning of the text.
    """

    def __init__(self, patterns: Callable[[], Iterable[re.Pattern[str]]], *, anchored: bool = False) -> None:
        self._patterns = patterns
        self._anchored = anchored

    @cached_property
    def _compiled(self) -> tuple[Any, dict[int, int]]:
        """The patterns as one set, and the bit of each."""
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
        """Returns the text with what may be found in it."""
        return Seen(text, self._compiled[1], self._matched(text)) if text else self._nothing

    def bits(self, *patterns: re.Pattern[str]) -> int:
        """Returns the bits of some patterns, to ask of `Seen.found` whether any of them may be found."""
        bits = 0
        for pattern in patterns:
            bits |= self._compiled[1][id(pattern)]
        return bits

    def _matched(self, text: str) -> int:
        if not text.isascii() and _FOREIGN.search(text):
            return _ANYTHING
        found = 0
        for number in self._compiled[0].Match(text.encode()) or ():
            found |= 1 << number
        return found


class Seen:
    """A text, and which patterns of a prefilter may be found in it.

    Attributes:
        text: The text.
        found: The bits of the patterns that may be found (see `Prefilter.bits`).
    """

    __slots__ = ("_bits", "found", "text")

    def __init__(self, text: str, bits: dict[int, int], found: int) -> None:
        self.text = text
        self.found = found
        self._bits = bits

    def may(self, pattern: re.Pattern[str]) -> bool:
        """Returns whether a pattern of the prefilter may be found; if not, it is in no piece of the text either."""
        return bool(self.found & self._bits[id(pattern)])

    def search(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Returns the first match of a pattern of the prefilter."""
        return pattern.search(self.text) if self.found & self._bits[id(pattern)] else None

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Returns the match of a pattern of the prefilter at the beginning."""
        return pattern.match(self.text) if self.found & self._bits[id(pattern)] else None

    def piece(self, text: str) -> Seen:
        """Returns a piece of the text, cut at the edge of a word, with what may be found in it."""
        return Seen(text, self._bits, self.found)


def loosened(pattern: re.Pattern[str]) -> str:
    """Returns an RE2 pattern that matches wherever the pattern does in a folded text of ASCII and signs.

    Assertions go, except for the edges of words and the end; counted repetitions become open.
    """
    source = pattern.pattern
    parts: list[str] = []
    place = 0
    while place < len(source):
        end = _after(source, place)
        piece = source[place:end]
        if piece in _LOOKS:
            end = _closing(source, place)
            piece = r"\b" if source[place:end] in _EDGES else ""
        elif piece == "{" and (count := _COUNT.match(source, place)):
            end = count.end()
            piece = "*" if count[1] in ("", "0") else "+"
        elif piece in ("$", r"\Z"):
            piece = r"\n?\z"
        elif piece in ("^", r"\A") or (piece.isspace() and pattern.flags & re.VERBOSE):
            piece = ""
        parts.append(piece)
        place = end
    return "".join(parts)


def _after(source: str, place: int) -> int:
    """Returns where the escape, class, assertion or character at a place ends."""
    if source[place] == "\\":
        return place + 2
    if source.startswith(_LOOKS, place):
        return place + (4 if source[place + 2] == "<" else 3)
    if source[place] != "[":
        return place + 1
    place += 2 if source[place + 1] == "^" else 1
    place += source[place] == "]"
    while source[place] != "]":
        place += 2 if source[place] == "\\" else 1
    return place + 1


def _closing(source: str, place: int) -> int:
    """Returns where the group that begins at a place ends."""
    depth = 0
    while True:
        depth += (source[place] == "(") - (source[place] == ")")
        place = _after(source, place)
        if depth == 0:
            return place
