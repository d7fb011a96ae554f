"""Selects the samples that the page of a large run shows: some of every kind, spread evenly over the run."""

from __future__ import annotations

from lyncean.arrays import NDArray, np
from lyncean.columns import Column
from orchestrator.run_folder.reader import STEP, Item

Kind = tuple[str, str, str, str]
"""Task, outcome, reason, and right, wrong or partial."""


class Selection:
    """Takes note of a run's items in their order, and then says which to show.

    Items of one sample are shown together. A sample is of the kind of its first item that is not right.
    """

    def __init__(self) -> None:
        self._kinds: dict[Kind, int] = {}
        self._starts, self._codes = Column("I"), Column("i")
        self._items = 0
        self._sample, self._code = "", 0
        self._fine = True

    def add(self, item: Item, reason: str) -> None:
        """Takes note of the next item."""
        if not self._items or item.sample != self._sample:
            if self._items:
                self._codes.extend((self._code,))
            self._sample, self._fine = item.sample, True
            self._starts.extend((self._items,))
        self._items += 1
        if self._fine:
            kind, self._fine = _kind(item, reason)
            self._code = self._kinds.setdefault(kind, len(self._kinds))

    def places(self, most: int) -> list[int]:
        """Returns the places of about `most` items, in their order: kinds share alike, small ones are whole."""
        starts = self._starts.read()
        sizes = np.diff(starts, append=np.uint32(self._items))
        codes = np.append(self._codes.read(), np.int32(self._code))[: len(starts)]
        totals = [int(sizes[codes == code].sum()) for code in range(len(self._kinds))]
        taken: list[NDArray[np.int64]] = []
        left = float(most)
        order = [code for code in np.argsort(totals, kind="stable") if totals[code]]
        for rank, code in enumerate(order):
            mine = np.flatnonzero(codes == code)
            share = min(1.0, left / (len(order) - rank) / totals[code])
            count = max(1, int(share * len(mine)))
            chosen = mine[np.linspace(0, len(mine) - 1, count).astype(np.int64)]
            left = max(0.0, left - float(sizes[chosen].sum()))
            taken.append(chosen)
        samples = np.sort(np.concatenate(taken)) if taken else np.zeros(0, np.int64)
        return [position for sample in samples for position in range(starts[sample], starts[sample] + sizes[sample])]


def _kind(item: Item, reason: str) -> tuple[Kind, bool]:
    """Returns an item's kind, and whether there is nothing wrong with it."""
    score = item.score
    right = "" if score is None else "right" if score >= 1 else "wrong" if score <= 0 else "partial"
    fine = item.outcome == STEP or (item.outcome == "scored" and right in ("", "right"))
    return (item.task, item.outcome, reason, right), fine
