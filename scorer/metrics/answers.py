"""What an extracted answer stands for among the options, whatever form the rule gave it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from scorer.metrics.table import Ints


def place(word: str, options: Sequence[str]) -> int | None:
    """Returns the position of the option that is meant: by its text, else by its letter or number; None for none."""
    if word in options:
        return options.index(word)
    if len(word) == 1 and word.isascii() and word.isalpha():
        index = ord(word.upper()) - ord("A")
        return index if index < len(options) else None
    if word.isascii() and word.isdecimal():
        return int(word) - 1 if 0 < int(word) <= len(options) else None
    return None


def text(word: str, options: Sequence[str]) -> str:
    """Returns the text of the option that is meant, so that answers compare although options were permuted."""
    index = place(word, options)
    return word if index is None else options[index]


def name(word: str, options: Sequence[str]) -> str:
    """Returns what the option is called on the page: itself if it is one character, else its letter."""
    index = place(word, options)
    if index is None or index >= 26 or len(options[index]) == 1:
        return word
    return chr(ord("A") + index)


def together(numbers: Ints) -> Iterator[Ints]:
    """Yields the rows that have the same number, in rising order."""
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    edges = np.flatnonzero(np.diff(numbers[order])) + 1
    yield from np.split(order, edges)


def shares(values: Iterable[str]) -> dict[str, float]:
    """Returns how often each value occurs, as shares, sorted by value."""
    ordered = sorted(values)
    return {value: len(list(same)) / len(ordered) for value, same in groupby(ordered)}
