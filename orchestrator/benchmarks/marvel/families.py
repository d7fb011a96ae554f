"""Families of MARVEL puzzles that share panels; a demonstration from the target's family would reveal its answer.

Many puzzles reuse panels of others, most of them transposed or cut from a matrix: 331 of the 770
share a panel with another one, in 152 families.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence

from orchestrator.benchmarks.marvel import image
from orchestrator.data.images import row_image
from orchestrator.data.rows import Row
from orchestrator.samples import BadRowError


class Pool:
    """All puzzles of a data set, as sources of demonstrations. Safe to use from several threads.

    Images are read, all of them, when families are first asked for, unless these are known.
    """

    def __init__(self, rows: Sequence[Row], known: Mapping[int, int] | None = None) -> None:
        self.rows = rows
        self._families = known
        self._lock = threading.Lock()

    def family(self, number: int) -> int | None:
        """Returns a puzzle's family, named by its first member; None where its image cannot be read."""
        with self._lock:
            if self._families is None:
                self._families = families(self.rows)
            return self._families.get(number)


def families(rows: Sequence[Row]) -> dict[int, int]:
    """Returns the family of each puzzle whose image can be read: puzzles that share a panel are of one."""
    first: dict[bytes, int] = {}
    parent: dict[int, int] = {}

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    for row in rows:
        number = row["id"]
        try:
            panels = list(_panels(row))
        except BadRowError:
            continue
        parent[number] = number
        for panel in panels:
            one, other = root(number), root(first.setdefault(panel, number))
            parent[max(one, other)] = min(one, other)
    return {number: root(number) for number in parent}


def _panels(row: Row) -> Iterator[bytes]:
    """Yields a hash of each panel's inside, the blank one left out; frames vary with the position of a panel."""
    configuration = row["task_configuration"]
    puzzle = image.opened(row_image(row), configuration)
    context = image.context_shown(configuration, row["c_perception_answer_tuple"][0])
    for box in (*context, *image.choice_boxes(puzzle.width, configuration)):
        panel = puzzle.crop(image.inner(box))
        if panel.getextrema() != (image.WHITE, image.WHITE):
            yield hashlib.sha256(panel.tobytes()).digest()
