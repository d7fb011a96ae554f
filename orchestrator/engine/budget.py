"""What a run may spend: tokens in all, requests a second, time."""

from __future__ import annotations

import time


class Budget:
    """Counts what was spent and says how long to wait, and when to stop.

    Args:
        max_tokens: Tokens, in and out, after which nothing more is sent, those counted that `used` is told
            of from earlier processes; None is no bound.
        max_per_second: Requests a second over all replicas; None is no bound.
        deadline: Seconds after which nothing more is sent; None is no bound.
    """

    def __init__(
        self,
        *,
        max_tokens: int | None = None,
        max_per_second: float | None = None,
        deadline: float | None = None,
    ) -> None:
        self.tokens = 0
        self.counts_tokens = max_tokens is not None
        self._max_tokens = max_tokens
        self._gap = 1 / max_per_second if max_per_second else 0.0
        self._next = time.monotonic()
        self._end = time.monotonic() + deadline if deadline else None

    def wait(self) -> float:
        """Returns the seconds until the next request may be sent; 0 or less is now."""
        return self._next - time.monotonic() if self._gap else 0.0

    def sent(self) -> None:
        """Notes a request."""
        if self._gap:
            # Time in which nothing was sent is not saved up: a burst is what the bound forbids.
            self._next = max(self._next, time.monotonic()) + self._gap

    def used(self, tokens: int) -> None:
        """Notes what an answer cost."""
        self.tokens += tokens

    def exhausted(self) -> str:
        """Returns why nothing more may be sent and how to go on, "" while there is something left."""
        if self._max_tokens is not None and self.tokens >= self._max_tokens:
            return (
                f"the budget of {self._max_tokens:,} tokens is spent ({self.tokens:,} so far in this run); "
                "run the command again with more to resume"
            )
        if self._end is not None and time.monotonic() >= self._end:
            return "the deadline has passed; run the same command again to resume"
        return ""
