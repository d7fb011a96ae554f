"""Concurrency that follows what the judge's endpoint can take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Throttle:
    """Additive increase, multiplicative decrease, as TCP does it, and a pause where one is asked for.

    Args:
        most: Calls in flight that are never exceeded.
        start: Calls in flight to begin with.
    """

    def __init__(self, most: int, start: int = 8) -> None:
        self.limit = float(min(start, most))
        self._most = most
        self._busy = 0
        self._until = 0.0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for room and for the end of a pause."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._busy < int(self.limit))
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

    def succeeded(self) -> None:
        """One call more in flight for every `limit` that succeeded."""
        self.limit = min(self._most, self.limit + 1 / self.limit)

    def refused(self, pause: float) -> None:
        """Half as many in flight, and none for `pause` seconds."""
        self.limit = max(1.0, self.limit / 2)
        self._until = max(self._until, asyncio.get_running_loop().time() + pause)
