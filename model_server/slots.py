"""Bounded concurrency with a bounded queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lyncean.rpc import Overloaded
from model_server.metrics import Metrics


def queue_full(waiting: int, limit: int) -> Overloaded:
    """Returns the error for a request beyond the limit of the queue."""
    return Overloaded(
        "queue_full",
        f"{waiting} requests are waiting, the limit is {limit}: send again later",
        limit=str(limit),
        value=str(waiting),
    )


class Slots:
    """Lets in so many calls at a time, in the order of their arrival.

    Args:
        concurrency: Calls at a time.
        max_queue: Most calls waiting; one more is refused.
        metrics: The server's counters.

    Attributes:
        semaphore: Held by each call that is let in.
    """

    def __init__(self, concurrency: int, max_queue: int, metrics: Metrics) -> None:
        self.semaphore = asyncio.Semaphore(concurrency)
        self._max_queue = max_queue
        self._metrics = metrics
        self._waiting = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a slot and holds it.

        Raises:
            Overloaded: If the queue is full.
        """
        waiting, limit = self._waiting, self._max_queue
        if self.semaphore.locked() and waiting >= limit:
            raise queue_full(waiting, limit)
        self._waiting += 1
        self._metrics.queued.set(self._waiting)
        try:
            await self.semaphore.acquire()
        finally:
            self._waiting -= 1
            self._metrics.queued.set(self._waiting)
        try:
            yield
        finally:
            self.semaphore.release()
