"""Choice of the replica that takes the next call."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from orchestrator.engine.replica import Replica


class LeastLoaded:
    """Replicas by their free share of slots; picks one in logarithmic time.

    Valid while no replica's free share grows.

    Args:
        replicas: The replicas; of equal shares the earlier one is taken.
    """

    def __init__(self, replicas: Iterable[Replica]) -> None:
        free = ((_taken(replica), number, replica) for number, replica in enumerate(replicas))
        self._heap = [entry for entry in free if entry[0] < 1]
        heapq.heapify(self._heap)

    def pick(self, avoid: Replica | None = None) -> Replica | None:
        """Returns the replica with the largest free share, None if none is free."""
        passed, choice = None, None
        while self._heap and choice is None:
            taken, number, replica = self._heap[0]
            now = _taken(replica)
            if now >= 1:
                heapq.heappop(self._heap)
            elif now != taken:  # its load grew after the entry was made: sort it in again
                heapq.heapreplace(self._heap, (now, number, replica))
            elif replica is avoid:
                passed = heapq.heappop(self._heap)
            else:
                choice = replica
        if passed:
            heapq.heappush(self._heap, passed)
        return choice


def _taken(replica: Replica) -> float:
    free = replica.free
    return 1 - free / replica.limit if free > 0 else 1.0
