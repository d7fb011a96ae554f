"""The items on which two runs disagree, with both answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    """Finds the items that two runs score differently.

    Returns:
        How many items both runs have, how many of them the second run has better and how many worse, and up
        to `most` items lost and as many gained, lost first, in the order of their keys.
    """
    items, counts = 0, {False: 0, True: 0}
    places: dict[bool, tuple[list[int], list[int]]] = {False: ([], []), True: ([], [])}
    for task, mine in first.items.items():
        if theirs := second.items.get(task):
            rows = pair([mine.keys, theirs.keys])
            items += len(rows[0])
            change = theirs.scores[rows[1]] - mine.scores[rows[0]]
            for gained, (before, after) in places.items():
                changed = np.flatnonzero(change > 0 if gained else change < 0)
                counts[gained] += len(changed)
                shown = changed[: most - len(before)]
                before += mine.places[rows[0][shown]].tolist()
                after += theirs.places[rows[1][shown]].tolist()
    found = [
        Flip(*pair_of_items)
        for before, after in places.values()
        for pair_of_items in zip(first.run.at(before), second.run.at(after), strict=True)
    ]
    return items, counts[True], counts[False], found


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
