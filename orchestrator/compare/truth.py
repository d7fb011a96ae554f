"""The right answer of an item, alike for every method: a choice among options by its place.

A question asked for its letter has the target "B", for its number "2", and by likelihood the option's own text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.run_folder.reader import Item

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMBERS = tuple(str(number) for number in range(1, len(_LETTERS) + 1))
_LABELS = {"choice": tuple(_LETTERS), "choice_number": _NUMBERS}
"""Rule -> the labels that its targets may be; any rule's target may be an option's text."""
_FIELDS = ("targets", "options")


def truth(item: Item) -> tuple[list[Any], list[str]]:
    """Returns targets, as places of options from 0 where each is one, and options, empty where they are labels."""
    targets, options = (list(map(str, item.scoring.get(name) or item.verdict.get(name) or ())) for name in _FIELDS)
    rule = str(item.verdict.get("rule") or item.scoring.get("rule"))
    places = [_place(target, options, _LABELS.get(rule, ())) for target in targets]
    labels = any(options == list(each[: len(options)]) for each in _LABELS.values())
    return (targets if None in places else sorted(set(places))), ([] if labels else options)


def _place(target: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Returns which option a target is, as the rules take it: by label first, else by a text that only one has."""
    plain = target.strip().strip("().").upper()
    if plain in labels:
        return labels.index(plain)
    return options.index(target) if options.count(target) == 1 else None
