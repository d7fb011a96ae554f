"""Slots for calls to a judge; their number adapts to its endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lyncean.rpc.limiter import Limiter

START = 8
"""Initial limit of calls in flight."""


class Throttle:
    """A limiter whose callers wait for a slot, and for the end of a pause that the endpoint requests.

    Args:
        most: Upper bound of the calls in flight.
    """

    def __init__(self, most: int) -> None:
        self._limiter = Limiter(most, START)
        self._busy = 0
        self._until = 0.0
        self._changed = asyncio.Condition()
        self.succeeded = self._limiter.succeeded

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a slot and for the end of a pause; holds the slot inside the block."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._busy < self._limiter.limit)
            self._busy += 1
        try:
            loop = asyncio.get_running_loop()
            while (left := self._until - loop.time()) > 0:
                await asyncio.sleep(left)
            yield
        finally:
            async with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def refused(self, pause: float) -> None:
        """Halves the limit, and pauses all calls for `pause` seconds."""
        self._limiter.refused()
        self._until = max(self._until, asyncio.get_running_loop().time() + pause)
