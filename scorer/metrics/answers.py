"""Position of an extracted answer among the options: rules extract letters, numbers or texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lyncean.arrays import Ints, np
from scorer.metrics.table import Table, numbered

UNREADABLE = -1
"""Code of an answer without an extracted text."""

_BY_LETTER = frozenset({"choice", "lmms_vstar", "lmms_visualpuzzles"})
"""Rules that extract a letter: "B" is the second option, even if another option has the text "B"."""
_BY_NUMBER = frozenset({"choice_number"})
"""Rules that extract a position, from 1."""


def position(word: str, options: Sequence[str], rule: str = "") -> int | None:
    """Returns the index of the option that an answer names; None if it names none.

    The text of an option may be the letter or number of another one. Then the rule decides: the rules above extract
    labels, all others texts where they can.

    Args:
        word: An extracted answer or a target.
        options: The texts of the options, in the order that the model saw.
        rule: The rule that extracted the answer.
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
    """Returns the text of the named option, so that answers to permuted options are comparable."""
    index = position(word, options, rule)
    return word if index is None else options[index]


def name(word: str, options: Sequence[str], rule: str = "") -> str:
    """Returns the short name of the named option: its text if that is one character, else its letter."""
    index = position(word, options, rule)
    if index is None or index >= 26 or len(options[index]) == 1:
        return word
    return chr(ord("A") + index)


def extracted(table: Table) -> list[int]:
    """Returns a code for the option text of each row's answer; `UNREADABLE` for rows that are not scored.

    Needs the columns "extracted", "options" and "rule".
    """
    codes, _ = coded(table, "extracted", text)
    codes_or_none: list[int] = np.where(table.scored, codes, UNREADABLE).tolist()
    return codes_or_none


def coded(table: Table, column: str, naming: Callable[[str, Sequence[str], str], str]) -> tuple[Ints, list[str]]:
    """Returns the code of each row's answer, -1 where there is none, and the sorted names of the codes.

    Answer, options and rule are packed into one integer per row, so that `naming` runs once per distinct combination
    and not once per row.

    Args:
        table: The items; needs the columns `column`, "options" and "rule".
        column: "extracted", or "targets", of which the first counts.
        naming: `text` or `name`.
    """
    values, options, rules = (table.vocabulary[name] for name in (column, "options", "rule"))
    combined = table.codes[column].astype(np.int64)
    combined *= len(options)
    combined += table.codes["options"]
    combined *= len(rules)
    combined += table.codes["rule"]
    rows = numbered(combined)
    pairs = np.empty(int(rows.max(initial=-1)) + 1, np.int64)
    pairs[rows] = combined
    names_or_none: list[str | None] = []
    for combination in pairs.tolist():
        pair, rule = divmod(combination, len(rules))
        value = values[pair // len(options)]
        first = value if isinstance(value, str) else next(iter(value), None)
        names_or_none.append(None if first is None else naming(first, options[pair % len(options)], str(rules[rule])))
    names = sorted({label for label in names_or_none if label is not None})
    code_of = {label: code for code, label in enumerate(names)}
    codes = np.array([-1 if label is None else code_of[label] for label in names_or_none], np.int32)
    return codes[rows], names
