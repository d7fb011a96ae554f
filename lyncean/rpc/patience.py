"""Patience with a server: pauses before a call is made again, and when to give up."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from lyncean.rpc.errors import CallError

_Response = TypeVar("_Response")


def backoff(failures: int, first: float = 0.5, longest: float = 30.0) -> float:
    """Returns the seconds to wait after so many failures, from 1: doubling from `first`, bounded, jittered."""
    return min(longest, first * 2.0 ** min(failures - 1, 10)) * random.uniform(0.5, 1.0)


class Patience:
    """The failures of one call, and the time that is left for further tries: it runs from here on.

    Args:
        seconds: Time for a call that meets full or absent servers.
        reach: Time until the address is first reached, in seconds.
        channel: The channel to the address; None counts it as reached.

    Attributes:
        failures: Failures so far.
    """

    __slots__ = ("_channel", "_counts", "_limit", "_seconds", "_since", "failures")

    def __init__(self, seconds: float, reach: float = math.inf, channel: grpc.aio.Channel | None = None) -> None:
        self.failures = 0
        self._counts: Counter[grpc.StatusCode] = Counter()
        self._seconds, self._limit = seconds, min(reach, seconds)
        self._channel = channel
        self._since = time.monotonic()

    def ends(self, error: CallError) -> bool:
        """Counts a failure; returns whether its status, or for a full or absent server the time, ends the tries."""
        self.failures += 1
        self._counts[error.code] += 1
        retries = error.consequence.retries
        return self.over() if retries is None else self._counts[error.code] > retries

    def over(self, pause: float = 0.0) -> bool:
        """Returns whether no time is left after a pause in seconds."""
        # A server that was reached and still loads its model is waited for as long as one that is full.
        if self._channel and self._channel.get_state() is grpc.ChannelConnectivity.READY:
            self._limit, self._channel = self._seconds, None
        return time.monotonic() + pause - self._since >= self._limit


async def patiently(
    attempt: Callable[[], Awaitable[_Response]],
    patience: Patience,
    failed: Callable[[CallError, float], None] = lambda _error, _pause: None,
) -> _Response:
    """Returns the response of a call that is made again as its status says.

    Args:
        attempt: Makes the call.
        patience: Limits the tries and their time.
        failed: Gets each failure and the pause after it, in seconds; the last failure, too.

    Raises:
        CallError: The last failure.
    """
    while True:
        try:
            return await attempt()
        except CallError as error:
            ended = patience.ends(error)
            pause = max(backoff(patience.failures), error.retry_after)
            failed(error, pause)
            if ended or patience.over(pause):
                raise
        await asyncio.sleep(pause)
