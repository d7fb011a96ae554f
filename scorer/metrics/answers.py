"""Position of an extracted answer among the options, whatever form the rule gave it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lyncean.arrays import Ints, np
from scorer.metrics.table import Table, numbered

UNREADABLE = -1
"""Code of an answer in which nothing was read."""

_BY_LETTER = frozenset({"choice", "lmms_vstar", "lmms_visualpuzzles"})
"""Rules that extract a letter: "B" is the second option, whatever the options' texts are."""
_BY_NUMBER = frozenset({"choice_number"})
"""Rules that extract a number from 1."""


def place(word: str, options: Sequence[str], rule: str = "") -> int | None:
    """Returns the position of the option that a word means, None for none.

    The text of an option may be the letter or number of another one. Then the rule decides: those above extract
    labels, every other rule texts where it can.

    Args:
        word: An extracted answer or a target.
        options: The options' texts, in the order the model saw them.
        rule: The rule that read the answer.
    """
    text = options.index(word) if word in options else None
    if len(word) == 1 and word.isascii() and word.isalpha():
        label, rules = ord(word.upper()) - ord("A"), _BY_LETTER
    elif word.isascii() and word.isdecimal():
        label, rules = int(word) - 1, _BY_NUMBER
    else:
        return text
    if not 0 <= label < len(options):
        return text
    return label if text is None or rule in rules else text


def text(word: str, options: Sequence[str], rule: str = "") -> str:
    """Returns the text of the option that is meant, so that answers compare although options were permuted."""
    index = place(word, options, rule)
    return word if index is None else options[index]


def name(word: str, options: Sequence[str], rule: str = "") -> str:
    """Returns what the option is called on the page: itself if it is one character, else its letter."""
    index = place(word, options, rule)
    if index is None or index >= 26 or len(options[index]) == 1:
        return word
    return chr(ord("A") + index)


def extracted(table: Table) -> list[int]:
    """Returns a code of each row's answer by the text of its option, `UNREADABLE` where it is not scored.

    Needs the columns "extracted", "options" and "rule".
    """
    codes, _ = coded(table, "extracted", text)
    codes_or_none: list[int] = np.where(table.scored, codes, UNREADABLE).tolist()
    return codes_or_none


def coded(table: Table, column: str, naming: Callable[[str, Sequence[str], str], str]) -> tuple[Ints, list[str]]:
    """Returns the code of each row's answer, -1 where there is none, and the names that the codes stand for, sorted.

    `column` is "extracted", or "targets", of which the first counts; the columns "options" and "rule" are needed too.
    `naming` is `text` or `name`, called once for each combination that occurs.
    """
    words, options, rules = (table.vocabulary[name] for name in (column, "options", "rule"))
    combined = table.words[column].astype(np.int64)
    combined *= len(options)
    combined += table.words["options"]
    combined *= len(rules)
    combined += table.words["rule"]
    rows = numbered(combined)
    pairs = np.empty(int(rows.max(initial=-1)) + 1, np.int64)
    pairs[rows] = combined
    called: list[str | None] = []
    for combination in pairs.tolist():
        pair, rule = divmod(combination, len(rules))
        word = words[pair // len(options)]
        first = word if isinstance(word, str) else next(iter(word), None)
        called.append(None if first is None else naming(first, options[pair % len(options)], str(rules[rule])))
    names = sorted({one for one in called if one is not None})
    place = {one: index for index, one in enumerate(names)}
    codes = np.array([-1 if one is None else place[one] for one in called], np.int32)
    return codes[rows], names
