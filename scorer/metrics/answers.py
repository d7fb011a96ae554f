"""What an extracted answer stands for among the options, whatever form the rule gave it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from scorer.metrics.table import Ints, Table, numbered


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


def coded(table: Table, column: str, naming: Callable[[str, Sequence[str]], str]) -> tuple[Ints, list[str]]:
    """Returns what each row's answer is called: codes, and the names that they stand for, sorted.

    Args:
        table: The items, with the columns `column` and "options".
        column: "extracted", or "targets", of which the first counts; -1 where there is none.
        naming: `text` or `name`; called once for each combination that occurs.
    """
    words, options = table.vocabulary[column], table.vocabulary["options"]
    combined = table.words[column].astype(np.int64)
    combined *= len(options)
    combined += table.words["options"]
    rows = numbered(combined)
    pairs = np.empty(int(rows.max(initial=-1)) + 1, np.int64)
    pairs[rows] = combined
    called: list[str | None] = []
    for pair in pairs.tolist():
        word = words[pair // len(options)]
        first = word if isinstance(word, str) else next(iter(word), None)
        called.append(None if first is None else naming(first, options[pair % len(options)]))
    names = sorted({one for one in called if one is not None})
    place = {one: index for index, one in enumerate(names)}
    codes = np.array([-1 if one is None else place[one] for one in called], np.int32)
    return codes[rows], names
