"""The right answer of an item, in the same form for every method: a choice among options is its index.

The target is "B" if a question asks for the letter, "2" for the number, and the option's text with log-likelihoods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.run_folder.reader import Item

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMBERS = tuple(str(number) for number in range(1, len(_LETTERS) + 1))
_LABELS = {"choice": tuple(_LETTERS), "choice_number": _NUMBERS}
"""Rule -> the labels that its targets may be; a target of any rule may be an option's text."""
_FIELDS = ("targets", "options")


def truth(item: Item) -> tuple[list[Any], list[str]]:
    """Returns targets and options: targets as indices from 0 if all are options; options empty if they are labels."""
    targets, options = (list(map(str, item.scoring.get(name) or item.verdict.get(name) or ())) for name in _FIELDS)
    rule = str(item.verdict.get("rule") or item.scoring.get("rule"))
    indices = [_index(target, options, _LABELS.get(rule, ())) for target in targets]
    labels = any(options == list(known[: len(options)]) for known in _LABELS.values())
    return (targets if None in indices else sorted(set(indices))), ([] if labels else options)


def _index(target: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Returns the index of the option that a target names, as the rules do: by label, else by a unique text."""
    plain = target.strip().strip("().").upper()
    if plain in labels:
        return labels.index(plain)
    return options.index(target) if options.count(target) == 1 else None
