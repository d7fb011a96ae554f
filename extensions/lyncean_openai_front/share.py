"""Schedules calls of the model server: live requests at once, batches with the remaining capacity."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

IN_BATCH: ContextVar[bool] = ContextVar("IN_BATCH", default=False)
"""True in tasks that answer a batch."""


class Share:
    """Counts calls in flight. Batches have at most half of `max_concurrency`, less where live requests need it."""

    def __init__(self) -> None:
        self._live = self._batch = 0
        self._changed = asyncio.Event()

    async def free(self, concurrency: int) -> None:
        """Returns once a call of this task may be made; `concurrency` is what the model server states."""
        while IN_BATCH.get() and self._batch >= max(1, min(concurrency // 2, concurrency - self._live)):
            self._changed.clear()
            await self._changed.wait()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Counts a call; enter it without another wait after `free`."""
        batch = int(IN_BATCH.get())
        self._batch += batch
        self._live += 1 - batch
        try:
            yield
        finally:
            self._batch -= batch
            self._live -= 1 - batch
            self._changed.set()
