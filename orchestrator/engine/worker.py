"""Reads and builds samples: between two rounds of the event loop, or in a thread beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

TURN_SECONDS = 0.01
"""Seconds of work after which the event loop has its turn."""
LONG_SECONDS = 0.02
"""Work on one item that takes longer holds up answers. Opening a row group of 16 MB of images takes half of it."""
MOST_TURNS = 64
"""Most turns of work in the thread before it is tried without: one at first, then doubling up to this."""


class Worker:
    """Does work at once where it is short and waited for, else in a thread; never both at a time.

    The first piece is done in the thread: it opens the data and may pass over a million rows that are over.

    A thread that makes a system call every few microseconds and a busy event loop wait for each
    other's interpreter lock: with small images in batches that took a fifth of the engine's
    time. In a thread, work gives way to answers where there are many, and neither a slow disk nor
    a benchmark that paints over its pictures holds them up.

    Args:
        busy: Whether the event loop has enough to do without the work.
        clock: Seconds; `time.perf_counter` is looked up at each call, so that a world's clock can replace it.
    """

    def __init__(self, busy: Callable[[], bool], clock: Callable[[], float] = lambda: time.perf_counter()) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="samples")
        self._busy = busy
        self._clock = clock
        self._turns = 1
        self._next_turns = 1
        self._in_thread = 0
        self._idle = asyncio.Event()

    async def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Returns the result of the work for each item, in order; once one takes long, the rest is done in the thread.

        Raises:
            Exception: The exception that the work raises; later items are not begun.
        """
        done: list[Result] = []
        while len(done) < len(items):
            await asyncio.sleep(0)  # the event loop has its turn between any two pieces of work
            rest = items[len(done) :]
            if self._turns > 0 or self._busy():
                done += await self._beside(work, rest)
            elif self._in_thread:
                self._idle.clear()
                await self._idle.wait()
            else:
                done += self._at_once(work, rest)
        return done

    def shutdown(self) -> None:
        """Waits for the item under way; drops the others."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def _beside(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        self._turns = max(0, self._turns - 1)
        self._in_thread += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, lambda: [work(item) for item in items])
        finally:
            self._in_thread -= 1
            if not self._in_thread:
                self._idle.set()

    def _at_once(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Returns the results of the items until the event loop is due its turn."""
        done: list[Result] = []
        started = began = self._clock()
        for item in items:
            done.append(work(item))
            ended = self._clock()
            if ended - began > LONG_SECONDS:
                self._turns = self._next_turns
                self._next_turns = min(2 * self._turns, MOST_TURNS)
                return done
            if ended - started > TURN_SECONDS:
                break
            began = ended
        self._next_turns = 1
        return done
