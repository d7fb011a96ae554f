"""Waits for peers, disks and names, each with its subject, start, reason and time limit."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

from lyncean.errors import printable

_T = TypeVar("_T")

SAID_AFTER = 5.0
"""Seconds after which a wait is reported to the user."""
_LOOK_SECONDS = 1.0
_GRAIN_SECONDS = 0.001
_LONGEST_WORDS = 300


class OverdueError(Exception):
    """Raised when a wait exceeds its limit; the message names the peer and the seconds."""


class Wait:
    """A wait for one peer. It lasts from `begin` to `end`, and is overdue once nothing was heard for `limit` seconds.

    Args:
        what: Subject of the wait, phrased to follow "waiting for".
        limit: Seconds of silence after which the wait is overdue.

    Attributes:
        limit: As above; may change during the wait.
        why: Reason that the peer reports.
    """

    __slots__ = ("_heard", "_since", "limit", "what", "why")

    def __init__(self, what: str, limit: float) -> None:
        self.what, self.limit, self.why = what, limit, ""
        self._since = self._heard = math.inf

    def begin(self) -> None:
        """Starts the wait, or restarts it after progress."""
        self._since = self._heard = time.monotonic()
        self.why = ""

    def alive(self, why: str = "") -> None:
        """Records a sign of life of the peer, without the awaited result."""
        self._heard, self.why = time.monotonic(), printable(why[:_LONGEST_WORDS])

    def end(self) -> None:
        """Ends the wait."""
        self._since = self._heard = math.inf

    @property
    def seconds(self) -> float:
        """Duration in seconds; 0 outside a wait."""
        return max(0.0, time.monotonic() - self._since)

    @property
    def is_long(self) -> bool:
        """Whether it has lasted for SAID_AFTER seconds."""
        return self.seconds >= SAID_AFTER

    @property
    def left(self) -> float:
        """Seconds of silence until the limit."""
        return self.limit - max(0.0, time.monotonic() - self._heard)

    def __str__(self) -> str:
        wait = f"waiting for {self.what} for {self.seconds:.0f} s"
        return f"{wait}: {self.why}" if self.why else f"{wait}, {max(0.0, self.left):.0f} s more at most"

    async def bound(self, work: Awaitable[_T], tell: Callable[[str], None] = lambda _: None) -> _T:
        """Awaits a piece of work within the limit and returns its result.

        Args:
            work: The work.
            tell: Receives one line for the user after SAID_AFTER seconds of silence.

        Raises:
            OverdueError: The wait became overdue; the work is cancelled.
        """
        task = asyncio.ensure_future(work)
        reported = False
        try:
            while not task.done():
                if (left := self.left) <= 0:
                    raise OverdueError(f"{self.what} kept silent for {self.limit:.0f} s")
                if not reported and self.limit - left > SAID_AFTER:
                    reported = True
                    tell(str(self))
                await asyncio.wait({task}, timeout=min(left + _GRAIN_SECONDS, _LOOK_SECONDS))
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            elif not task.cancelled():
                task.exception()  # it may have failed just as this was cancelled: the event loop would log a traceback


class Waits:
    """The waits of one run, for its status line."""

    def __init__(self) -> None:
        self._waits: list[Wait] = []
        self._says: list[Callable[[], str]] = []

    def add(self, what: str, limit: float) -> Wait:
        """Returns a new wait, not yet started."""
        self._waits.append(wait := Wait(what, limit))
        return wait

    def also(self, says: Callable[[], str]) -> None:
        """Adds a source of further lines; it returns "" when nothing is awaited."""
        self._says.append(says)

    def __str__(self) -> str:
        """Describes the longest wait and the other sources' lines; "" if no wait is long."""
        longest = max(self._waits, key=lambda wait: wait.seconds, default=None)
        waits = [str(longest)] if longest and longest.is_long else []
        return "; ".join([*waits, *filter(None, (says() for says in self._says))])


def started(work: Callable[[], _T], name: str) -> Future[_T]:
    """Runs blocking work in a daemon thread: unlike one of an executor, it never keeps the process from ending."""
    done: Future[_T] = Future()

    def run() -> None:
        if done.set_running_or_notify_cancel():
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


async def in_thread(work: Callable[[], _T], name: str) -> _T:
    """Runs blocking work as `started` does, abandoned on cancellation, and returns its result."""
    return await asyncio.wrap_future(started(work, name))
