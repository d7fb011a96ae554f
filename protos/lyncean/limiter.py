"""Concurrency that follows what a server can take."""

from __future__ import annotations


class Limiter:
    """Bounds calls in flight by additive increase and multiplicative decrease, as TCP does.

    Args:
        most: Calls in flight that are never exceeded.
        start: Calls in flight to begin with; None is `most`.

    Attributes:
        limit: Calls that may be in flight now.
    """

    def __init__(self, most: int, start: int | None = None) -> None:
        self.most = most
        self.limit = most if start is None else min(start, most)
        self._successes = 0

    def bound(self, most: int) -> None:
        """Sets another maximum, which the limit then does not exceed."""
        self.most, self.limit = most, min(self.limit, most)

    def succeeded(self) -> None:
        """Counts a success: one call more in flight for every `limit` of them."""
        if self.limit < self.most:
            self._successes += 1
            if self._successes >= self.limit:
                self._successes = 0
                self.limit += 1

    def refused(self) -> None:
        """Halves the limit: the server's queue is full."""
        self._successes = 0
        self.limit = max(1, self.limit // 2)
