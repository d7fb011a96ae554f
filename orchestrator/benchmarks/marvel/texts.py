"""Texts on MARVEL puzzles from a user's file: reasoning for demonstrations, descriptions of panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from orchestrator.data.digest import sha256
from orchestrator.data.opening import open_rows
from orchestrator.data.rows import DataError
from orchestrator.data.table import Table

Text = str | Sequence[str]
"""One text for a puzzle, or one for each panel."""


@lru_cache(maxsize=8)
def load(path: str, column: str) -> Mapping[int, Text]:
    """Returns the texts of a JSONL, JSON or CSV file with the columns `id` and `column`, by puzzle.

    Raises:
        ValueError: The file cannot be used; a setting's value is wrong.
    """
    table = Table(hub="", split="", columns={"id": int, column: (str, list)}, images=())
    try:
        return {row["id"]: row[column] for row in open_rows(Path(path).absolute(), table)}
    except DataError as error:
        raise ValueError(str(error)) from error


def checked(path: str, column: str) -> str:
    """Returns the sha256 of a file that `load` can read, "" for no file.

    Raises:
        ValueError: It cannot be used.
    """
    if not path:
        return ""
    try:
        digest = sha256(Path(path))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    load(path, column)
    return digest
