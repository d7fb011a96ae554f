"""The items on which two runs disagree, with both answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.compare.items import Floats, Ints, Items, Names, pair
from orchestrator.compare.scores import Scores
from orchestrator.run_folder.reader import Item, Run


@dataclass(frozen=True, slots=True)
class Flip:
    """One item that two runs score differently, from the first and from the second run."""

    first: Item
    second: Item

    @property
    def gained(self) -> bool:
        """True if the second run scores the item higher."""
        return (self.second.score or 0.0) > (self.first.score or 0.0)

    @property
    def target(self) -> str:
        """The right answer, "" if no run records it; both answers if they differ, as with shuffled options."""
        first, second = (" | ".join(item.scoring.get("targets", ())) for item in (self.first, self.second))
        return first if first == second else f"{first or '–'} → {second or '–'}"


@dataclass(frozen=True, slots=True)
class Flips:
    """The items that two runs score differently; their lines stay on disk until they are read.

    Attributes:
        items: Number of items that both have.
        worse: For each task the offsets of the lines of items that the second run scores lower, in the two logs of
            either run (`Run.lines`): shape [2, items, 2].
        better: The same for items that it scores higher.
    """

    first: Run
    second: Run
    items: int
    worse: Sequence[NDArray[np.int64]]
    better: Sequence[NDArray[np.int64]]

    @property
    def lost(self) -> int:
        """Number of items that the second run scores lower."""
        return sum(lines.shape[1] for lines in self.worse)

    @property
    def gained(self) -> int:
        """Number of items that the second run scores higher."""
        return sum(lines.shape[1] for lines in self.better)

    def read(self, most: int) -> Iterator[Flip]:
        """Yields up to `most` items lost, then as many gained: the first of each task, in equal shares."""
        for tasks in (self.worse, self.better):
            for lines, count in zip(tasks, _shares([task.shape[1] for task in tasks], most), strict=True):
                before, after = (self.first.lines(lines[0, :count]), self.second.lines(lines[1, :count]))
                yield from (Flip(*both) for both in zip(before, after, strict=True))


def flips(first: Scores, second: Scores) -> Flips:
    """Finds the items that two runs score differently, in the order of tasks and keys."""
    items = 0
    worse: list[NDArray[np.int64]] = []
    better: list[NDArray[np.int64]] = []
    for task, mine in first.items.items():
        if theirs := second.items.get(task):
            change, lost, gained = _means(mine, theirs) if mine.repeats != theirs.repeats else _scores(mine, theirs)
            items += len(change)
            for rows, of_task in ((lost, worse), (gained, better)):
                of_task.append(np.stack([mine.lines.read()[rows[0]], theirs.lines.read()[rows[1]]]))
    return Flips(first.run, second.run, items, worse, better)


Rows = tuple[Ints, Ints]
"""Rows of items in the first and in the second run."""


def _scores(mine: Items, theirs: Items) -> tuple[Floats, Rows, Rows]:
    """Returns the change of each item that both runs have, and the rows of those that fell and that rose."""
    first, second = pair([mine.keys.read(), theirs.keys.read()])
    change = theirs.scores.read()[second] - mine.scores.read()[first]
    return change, (first[change < 0], second[change < 0]), (first[change > 0], second[change > 0])


def _means(mine: Items, theirs: Items) -> tuple[Floats, Rows, Rows]:
    """Returns the same of questions, whose score is the mean over their repeats.

    A question that fell is shown by its best repeat in the first run and its worst in the second.
    """
    first, second = (_questions(side.questions.read(), side.scores.read()) for side in (mine, theirs))
    rows, others = pair([first.names, second.names])
    change = second.means[others] - first.means[rows]
    lost, gained = change < -_ROUNDING, change > _ROUNDING
    return (
        change,
        (first.highest[rows[lost]], second.lowest[others[lost]]),
        (first.lowest[rows[gained]], second.highest[others[gained]]),
    )


_ROUNDING = 1e-9
"""Change of a mean that summation alone may make."""


class _Questions(NamedTuple):
    """Questions in their order, with mean score, and the first rows of the lowest and of the highest score."""

    names: Names
    means: Floats
    lowest: Ints
    highest: Ints


def _questions(names: Names, scores: Floats) -> _Questions:
    distinct, first, question = np.unique(names, return_index=True, return_inverse=True)
    means = np.bincount(question, weights=scores) / np.bincount(question)
    lowest, highest = (
        order[np.searchsorted(question[order], np.arange(len(distinct)))]
        for order in (np.lexsort((scores, question)), np.lexsort((-scores, question)))
    )
    order = np.argsort(first)
    return _Questions(distinct[order], means[order], lowest[order], highest[order])


def words(item: Item) -> str:
    """Returns an item's answer, or the reason why there is none."""
    if error := item.response.get("error"):
        return f"{item.outcome}: {error.get('message', '')}"
    answer = item.response.get("response") or {}
    if scores := answer.get("scores"):
        options = item.scoring.get("options") or (item.response.get("request") or {}).get("continuations", ())
        named = zip(options, scores, strict=False)
        return "\n".join(f"{float(score.get('logprob', 0)):9.3f}  {option}" for option, score in named)
    return item.text


def _shares(sizes: Sequence[int], most: int) -> list[int]:
    """Returns the number to take of each size so that `most` are taken in all; small ones are taken completely."""
    shares, left = [0] * len(sizes), most
    for rank, at in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[at] = min(sizes[at], -(-left // (len(sizes) - rank)))
        left -= shares[at]
    return shares
