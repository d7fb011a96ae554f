"""The cues by which answers are read: tables of alternatives, compiled into patterns at first use.

A table (`*.tsv`) holds lists. `[NAME mark...] note` begins a list; each line below it is one alternative: its language
(ISO 639-1, "-" for signs), the regular expression, and, where known, the corpus case that needs it, as `file:line`.
`{NAME}` inserts another list of the table, or a part from the code: a single entry as it is, several as a group.
Case does not matter except in lists marked `case`; in those marked `lines`, ^ and $ match at each line. The other
marks name the texts in which a list is searched (see `prefilter`).

Expressions are read in folded text (see `normalize`). Every repetition is bounded, so that no input makes them slow.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

WORD = "0-9A-Za-z_À-ÖØ-öø-ɏͰ-ϿЀ-ӿ"
"""Characters that continue a word; Chinese, Japanese and Korean script is written without blanks."""

_HEADING = re.compile(r"\[([A-Z_0-9]+)([a-z ]*)\]")
_INSERTED = re.compile(r"\{([A-Z_0-9]*[A-Z][A-Z_0-9]*)\}")


class _List(NamedTuple):
    entries: list[str]
    marks: list[str]


class Lexicon:
    """One table; its lists are attributes that hold compiled patterns.

    Args:
        table: The name of a table in this folder, or a path.
        parts: Further values of `{NAME}`, besides the table's lists.
    """

    def __init__(self, table: str | Path, **parts: str) -> None:
        self._path = Path(__file__).with_name(f"{table}.tsv") if isinstance(table, str) else table
        self._parts = {"WORD": WORD, **parts}

    @cached_property
    def _lists(self) -> dict[str, _List]:
        lists: dict[str, _List] = {}
        entries: list[str] = []
        for line in self._path.read_text("utf-8").splitlines():
            heading = _HEADING.match(line)
            if heading:
                entries = []
                lists[heading[1]] = _List(entries, heading[2].split())
            elif line and not line.startswith("#"):
                entries.append(line.split("\t")[1])
        return lists

    def entries(self, name: str, **parts: str) -> list[str]:
        """Returns the alternatives of a list with insertions resolved; `parts` are for this call alone."""
        known = self._parts | parts

        def inserted(match: re.Match[str]) -> str:
            entries = [known[match[1]]] if match[1] in known else self.entries(match[1], **parts)
            return f"(?:{'|'.join(entries)})" if len(entries) > 1 else entries[0]

        return [_INSERTED.sub(inserted, entry) for entry in self._lists[name].entries]

    def source(self, name: str, **parts: str) -> str:
        """Returns the regular expression of a list."""
        return "|".join(self.entries(name, **parts))

    def mapping(self, name: str) -> dict[str, str]:
        """Returns a list of entries "key: value"."""
        return dict(entry.split(": ", 1) for entry in self.entries(name))

    def marked(self, mark: str) -> list[re.Pattern[str]]:
        """Returns the patterns of all lists with a mark."""
        return [getattr(self, name) for name, (_, marks) in self._lists.items() if mark in marks]

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if not name.isupper() or name not in self._lists:
            raise AttributeError(f"{self._path.name} has no list {name}")
        marks = self._lists[name].marks
        flags = re.NOFLAG if "case" in marks else re.IGNORECASE
        pattern = re.compile(self.source(name), flags | re.MULTILINE if "lines" in marks else flags)
        setattr(self, name, pattern)
        return pattern


BEFORE, AFTER, ASIDES, DOCUMENT = map(Lexicon, ("before", "after", "asides", "document"))
"""Cues before and after a mention, cues that it is not the answer, and cues of complete answers."""
