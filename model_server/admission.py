"""Admission of single calls: a bounded number at a time, in the order of arrival, with a bounded queue."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lyncean.rpc import Overloaded
from model_server.backend import Call
from model_server.metrics import Metrics

Result = TypeVar("Result")


def queue_full(waiting: int, limit: int) -> Overloaded:
    """Returns the error for a request beyond the limit of the queue."""
    return Overloaded(
        "queue_full",
        f"{waiting} requests are waiting, the limit is {limit}: send again later",
        limit=str(limit),
        value=str(waiting),
    )


class Slots:
    """Admits a bounded number of calls at a time, in the order of their arrival.

    Args:
        concurrency: Calls at a time.
        max_queue: Most calls waiting; one more is refused.
        metrics: The server's counters.

    Attributes:
        semaphore: Held by each admitted call.
    """

    def __init__(self, concurrency: int, max_queue: int, metrics: Metrics) -> None:
        self.semaphore = asyncio.Semaphore(concurrency)
        self._max_queue = max_queue
        self._metrics = metrics
        self._waiting = 0

    @contextlib.asynccontextmanager
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


class Workers:
    """Runs calls in threads, in the order of their arrival.

    A thread that ends a call takes the next by itself: a model does not wait for the event loop in between.

    Args:
        concurrency: Calls at a time.
        max_queue: Most calls waiting; one more is refused.
        metrics: The server's counters.
    """

    def __init__(self, concurrency: int, max_queue: int, metrics: Metrics) -> None:
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="kit")
        self._concurrency = concurrency
        self._max_queue = max_queue
        self._metrics = metrics
        self._open = 0

    async def run(self, call: Call, function: Callable[..., Result], *args: object) -> Result:
        """Runs a function and returns its result; `call.started` is set when a thread takes it.

        Raises:
            Overloaded: If the queue is full.
        """

        def begin() -> Result:
            call.started = time.monotonic()
            return unstopped(function, *args)

        waiting = self._open - self._concurrency
        if waiting >= self._max_queue:
            raise queue_full(waiting, self._max_queue)
        self._count(1)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, begin)
        finally:
            self._count(-1)

    def _count(self, calls: int) -> None:
        self._open += calls
        self._metrics.queued.set(max(0, self._open - self._concurrency))

    def close(self) -> None:
        """Ends the threads once they are done with their calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def unstopped(function: Callable[..., Result], *args: object) -> Result:
    """Calls a function; turns a StopIteration, which a future cannot carry, into a RuntimeError.

    Otherwise the caller would wait for ever.
    """
    try:
        return function(*args)
    except StopIteration as error:
        raise RuntimeError("an iterator ended") from error
