"""So many calls at a time; the others wait, and no more of them than they may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lyncean.rpc import Overloaded
from model_server.metrics import Metrics


def queue_full(waiting: int, limit: int) -> Overloaded:
    """Returns the refusal of one request more than may wait."""
    return Overloaded(
        "queue_full",
        f"{waiting} requests are waiting, the limit is {limit}: send again later",
        limit=str(limit),
        value=str(waiting),
    )


class Turns:
    """Lets calls in one after another.

    Args:
        concurrency: Calls at a time.
        max_queue: Most calls waiting; one more is refused.
        metrics: What counts.

    Attributes:
        slots: What a call holds in its turn.
    """

    def __init__(self, concurrency: int, max_queue: int, metrics: Metrics) -> None:
        self.slots = asyncio.Semaphore(concurrency)
        self._max_queue = max_queue
        self._metrics = metrics
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a slot and holds it.

        Raises:
            Overloaded: If too many wait already.
        """
        waiting, limit = self._waiting, self._max_queue
        if self.slots.locked() and waiting >= limit:
            raise queue_full(waiting, limit)
        self._waiting += 1
        self._metrics.queued.set(self._waiting)
        try:
            await self.slots.acquire()
        finally:
            self._waiting -= 1
            self._metrics.queued.set(self._waiting)
        try:
            yield
        finally:
            self.slots.release()
