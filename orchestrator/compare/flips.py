"""The items on which two runs disagree, with both answers."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.compare.scores import Scores, Step, common
from orchestrator.report.run import Item


@dataclass(frozen=True, slots=True)
class Flip:
    """One item that two runs score differently.

    Attributes:
        step: Where it belongs.
        first: The item in the first run.
        second: The item in the second.
    """

    step: Step
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
    chosen = lost[:most] + gained[:most]
    keys = [key for _, key in chosen]
    read = zip(chosen, first.run.read(keys), second.run.read(keys), strict=True)
    return [Flip(step, one, other) for (step, _), one, other in read]


def _keys(first: Scores, second: Scores) -> tuple[list[tuple[Step, str]], list[tuple[Step, str]]]:
    gained: list[tuple[Step, str]] = []
    lost: list[tuple[Step, str]] = []
    for step in first.steps:
        for key in common([first, second], step):
            one, other = first.steps[step][key].score, second.steps[step][key].score
            if one != other:
                (gained if other > one else lost).append((step, key))
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
