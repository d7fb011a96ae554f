"""Waits for peers, disks and names: what is waited for, since when, why, and when it is given up."""

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
"""Seconds after which people are told of a wait."""
_LOOK_SECONDS = 1.0
_GRAIN_SECONDS = 0.001
_LONGEST_WORDS = 300


class OverdueError(Exception):
    """Nothing came for as long as a wait may last; the message names the peer and the seconds."""


class Wait:
    """A wait for one peer. It lasts from `begin` to `end`, and is overdue once nothing was heard for `limit` seconds.

    Args:
        what: What is waited for, in words that follow "waiting for".
        limit: Seconds of silence after which it is given up.

    Attributes:
        limit: As above; may be changed while it lasts.
        why: What the peer itself waits for, as it says.
    """

    __slots__ = ("_heard", "_since", "limit", "what", "why")

    def __init__(self, what: str, limit: float) -> None:
        self.what, self.limit, self.why = what, limit, ""
        self._since = self._heard = math.inf

    def begin(self) -> None:
        """Begins the wait, or begins it anew: something has come, and more is waited for."""
        self._since = self._heard = time.monotonic()
        self.why = ""

    def alive(self, why: str = "") -> None:
        """Notes a sign of life that is not what is waited for."""
        self._heard, self.why = time.monotonic(), printable(why[:_LONGEST_WORDS])

    def end(self) -> None:
        """Ends the wait: nothing is waited for."""
        self._since = self._heard = math.inf

    @property
    def seconds(self) -> float:
        """Seconds that it has lasted; 0 where nothing is waited for."""
        return max(0.0, time.monotonic() - self._since)

    @property
    def left(self) -> float:
        """Seconds of silence that are left."""
        return self.limit - max(0.0, time.monotonic() - self._heard)

    def __str__(self) -> str:
        words = f"waiting for {self.what} for {self.seconds:.0f} s"
        return f"{words}: {self.why}" if self.why else f"{words}, {max(0.0, self.left):.0f} s more at most"

    async def bound(self, work: Awaitable[_T], tell: Callable[[str], None] = lambda _: None) -> _T:
        """Returns what a piece of work returns.

        Args:
            work: What is done meanwhile.
            tell: Gets one line for people once nothing was heard for SAID_AFTER seconds.

        Raises:
            OverdueError: The wait was overdue meanwhile; the work is cancelled.
        """
        task = asyncio.ensure_future(work)
        told = False
        try:
            while not task.done():
                if (left := self.left) <= 0:
                    raise OverdueError(f"{self.what} kept silent for {self.limit:.0f} s")
                if not told and self.limit - left > SAID_AFTER:
                    told = True
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
    """The waits of one run, for the line that people see."""

    def __init__(self) -> None:
        self._waits: list[Wait] = []
        self._says: list[Callable[[], str]] = []

    def add(self, what: str, limit: float) -> Wait:
        """Returns a wait that has not begun."""
        self._waits.append(wait := Wait(what, limit))
        return wait

    def also(self, says: Callable[[], str]) -> None:
        """Adds something that says itself what is waited for, and why; "" where nothing is."""
        self._says.append(says)

    def __str__(self) -> str:
        """Returns the wait that lasts longest in words, and what others say; "" where nothing lasts long."""
        longest = max(self._waits, key=lambda wait: wait.seconds, default=None)
        words = [str(longest)] if longest and longest.seconds >= SAID_AFTER else []
        return "; ".join([*words, *filter(None, (says() for says in self._says))])


async def in_thread(work: Callable[[], _T], name: str) -> _T:
    """Returns what blocking work returns, done in a thread that nobody waits for once this is cancelled.

    The threads of `asyncio.to_thread` are waited for as a process ends: one that hangs keeps it.
    """
    done: Future[_T] = Future()

    def run() -> None:
        if done.set_running_or_notify_cancel():
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(done)
