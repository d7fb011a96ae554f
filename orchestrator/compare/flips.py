"""The items on which two runs disagree, with both answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.compare.items import pair
from orchestrator.compare.scores import Scores
from orchestrator.run_folder.reader import Item


@dataclass(frozen=True, slots=True)
class Flip:
    """One item that two runs score differently.

    Attributes:
        first: The item in the first run.
        second: The item in the second.
    """

    first: Item
    second: Item

    @property
    def gained(self) -> bool:
        """Whether the second run is the better one."""
        return (self.second.score or 0.0) > (self.first.score or 0.0)


def flips(first: Scores, second: Scores, most: int) -> tuple[int, int, int, list[Flip]]:
    """Looks for the items that two runs score differently.

    Returns:
        How many items both runs have, how many of them the second run has better and how many worse, and up
        to `most` items lost and as many gained, lost first, in the order of their keys.
    """
    items, gained, lost = 0, _Places(most), _Places(most)
    for task, mine in first.items.items():
        if theirs := second.items.get(task):
            rows = pair([mine.keys, theirs.keys])
            items += len(rows[0])
            one, other = mine.scores[rows[0]], theirs.scores[rows[1]]
            here, there = mine.places[rows[0]], theirs.places[rows[1]]
            gained.add(here[other > one], there[other > one])
            lost.add(here[other < one], there[other < one])
    found = [
        Flip(before, after)
        for change in (lost, gained)
        for before, after in zip(first.run.at(change.first), second.run.at(change.second), strict=True)
    ]
    return items, gained.count, lost.count, found


class _Places:
    """How many items changed in one direction, and where the first of them stand in both runs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0
        self.first: list[int] = []
        self.second: list[int] = []

    def add(self, first: NDArray[np.uint32], second: NDArray[np.uint32]) -> None:
        room = self._most - len(self.first)
        self.count += len(first)
        self.first += first[:room].tolist()
        self.second += second[:room].tolist()


def words(item: Item) -> str:
    """Returns what an item's model said, or why it said nothing."""
    if error := item.response.get("error"):
        return f"{item.outcome}: {error.get('message', '')}"
    answer = item.response.get("response") or {}
    if scores := answer.get("scores"):
        options = item.scoring.get("options") or (item.response.get("request") or {}).get("continuations", ())
        named = zip(options, scores, strict=False)
        return "\n".join(f"{float(score.get('logprob', 0)):9.3f}  {option}" for option, score in named)
    return item.text
