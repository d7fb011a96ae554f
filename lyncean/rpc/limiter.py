"""Concurrency that follows what a server can take, and the pause that it asks for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


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


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds that Retry-After asks for: a number, or a date."""
    value = headers.get("retry-after-ms")
    if value:
        return float(value) / 1000 if value.isdigit() else None
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
