"""The items on which two runs disagree, with both answers."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.compare.scores import Scores
from orchestrator.report.index import sortable
from orchestrator.report.run import Item


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


def count(first: Scores, second: Scores) -> tuple[int, int]:
    """Returns how many items the second run has better and how many worse."""
    gained, lost = _keys(first, second)
    return len(gained), len(lost)


def flips(first: Scores, second: Scores, most: int) -> list[Flip]:
    """Returns up to `most` items lost and as many gained, lost first, in the order of their keys."""
    gained, lost = _keys(first, second)
    keys = lost[:most] + gained[:most]
    return [Flip(one, other) for one, other in zip(first.run.read(keys), second.run.read(keys), strict=True)]


def _keys(first: Scores, second: Scores) -> tuple[list[str], list[str]]:
    gained: list[str] = []
    lost: list[str] = []
    for task in first.items:
        mine, theirs = first.items[task], second.items.get(task, {})
        for key in sorted(mine.keys() & theirs.keys(), key=sortable):
            one, other = mine[key].score, theirs[key].score
            if one != other:
                (gained if other > one else lost).append(key)
    return gained, lost


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
