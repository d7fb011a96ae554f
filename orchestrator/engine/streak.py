"""Failures of one call that are all alike: if others are answered meanwhile, patience does not help it."""

from __future__ import annotations

import math
import time

import grpc

from lyncean.rpc import CallError

HOPELESS_SECONDS = 30.0
"""Seconds after which, and LEAST_TRIES, a call that fails alike is given up if the server answers others."""
LEAST_TRIES = 5
_OF_SERVERS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED)
"""Statuses that are waited out elsewhere. A full queue says nothing of a call."""


class Streak:
    """Consecutive failures of one call with one status and reason."""

    __slots__ = ("_kind", "_since", "count")

    def __init__(self) -> None:
        self.count = 0
        self._kind: tuple[grpc.StatusCode, str] | None = None
        self._since = math.inf

    def hopeless(self, error: CallError, answered: float) -> bool:
        """Counts a failure; returns whether a further try is in vain.

        Args:
            error: The failure.
            answered: Send time of the last call that has an answer, seconds of the monotonic clock.
        """
        kind = (error.code, error.reason)
        if kind != self._kind:
            self._kind, self._since, self.count = kind, time.monotonic(), 0
        self.count += 1
        if error.code not in _OF_SERVERS or error.reason.startswith("identity_"):
            return False
        long = self.count >= LEAST_TRIES and time.monotonic() - self._since >= HOPELESS_SECONDS
        return long and answered > self._since

    def told(self, error: CallError) -> CallError:
        """Returns the failure with its count."""
        if self.count < LEAST_TRIES:
            return error
        message = f"{error} ({self.count} times in {time.monotonic() - self._since:.0f} s)"
        return CallError(error.code, error.reason, message, error.metadata, error.retry_after)
