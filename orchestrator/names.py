"""Names in tables of a terminal: they break after a sign that parts them, not within a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.containers import Lines
from rich.text import Text

_PIECES = re.compile(r"[^\n _:,/.+=-]*[ _:,/.+=-]*\n?")


class Name(Text):
    """A name such as "lm-eval:mmlu_pro" in a column that may be too narrow for it."""

    def wrap(self, console: Console, width: int, **_: Any) -> Lines:
        """Returns the name in lines of at most a width in characters; a word that is longer is cut."""
        lines = self.divide(_breaks(self.plain, width))
        for line in lines:
            line.rstrip()
        return lines


def _breaks(text: str, width: int) -> Iterator[int]:
    """Yields the offsets at which lines begin, but for the first."""
    start = 0
    for piece in _PIECES.finditer(text):
        while piece.end() - start > width:
            start = piece.start() if piece.start() > start else start + width
            yield start
        if piece[0].endswith("\n"):
            start = piece.end()
            yield start
