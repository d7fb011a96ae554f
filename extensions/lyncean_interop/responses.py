"""Answers to one document as other harnesses write them: lists in lists, by request, repeat and round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Pair = tuple[float, bool]
"""Score of a continuation by a harness's model: log-probability or loss, and whether it is greedy."""


def texts_of(value: Any) -> list[str]:
    """Returns the texts of nested lists in order; other values as their text."""
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value if isinstance(value, str) else str(value)]


def pairs_of(value: Any) -> list[Pair]:
    """Returns the scores of continuations in nested lists, in order; empty if there are other values."""
    try:
        return list(_pairs(value))
    except ValueError:
        return []


def _pairs(value: Any) -> Iterator[Pair]:
    """Yields pairs.

    Raises:
        ValueError: There is another value.
    """
    if not isinstance(value, list) or not value:
        raise ValueError(value)
    if len(value) == 2 and str(value[1]) in ("True", "False") and isinstance(value[0], str | int | float):
        yield float(value[0]), str(value[1]) == "True"
        return
    for item in value:
        yield from _pairs(item)
