"""What may be spent on calls: requests, tokens, money, requests a second, time."""

from __future__ import annotations

import time


class Budget:
    """Bounds on calls and the account of them. None means no bound.

    Args:
        max_requests: Requests that are sent at most.
        max_tokens: Tokens, in and out together, after which nothing more is sent.
        max_cost: Money, in the prices' currency.
        input_price: Price of a million input tokens.
        output_price: Price of a million output tokens.
        max_per_second: Requests a second over all servers.
        deadline: Seconds from now after which nothing more is sent.
    """

    def __init__(
        self,
        max_requests: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        input_price: float = 0.0,
        output_price: float = 0.0,
        *,
        max_per_second: float | None = None,
        deadline: float | None = None,
    ) -> None:
        self.requests = self.input_tokens = self.output_tokens = 0
        self.max_requests, self.max_tokens, self.max_cost = max_requests, max_tokens, max_cost
        self._prices = input_price, output_price
        self._gap = 1 / max_per_second if max_per_second else 0.0
        self._next = time.monotonic()
        self._end = time.monotonic() + deadline if deadline else None

    @property
    def tokens(self) -> int:
        """Tokens so far, in and out."""
        return self.input_tokens + self.output_tokens

    @property
    def cost(self) -> float:
        """Money so far."""
        return (self.input_tokens * self._prices[0] + self.output_tokens * self._prices[1]) / 1e6

    def wait(self) -> float:
        """Returns the seconds until the next request may be sent; 0 or less is now."""
        return self._next - time.monotonic() if self._gap else 0.0

    def sent(self) -> None:
        """Counts a request."""
        self.requests += 1
        if self._gap:
            # Time in which nothing was sent is not saved up: a burst is what the bound forbids.
            self._next = max(self._next, time.monotonic()) + self._gap

    def used(self, input_tokens: int, output_tokens: int = 0) -> None:
        """Counts the tokens of a response."""
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens

    def reached(self) -> tuple[str, float] | None:
        """Returns the name and value of a bound that is reached; None while more may be sent.

        Calls in flight may still exceed a bound: their tokens are not known before.
        """
        for name, bound, spent in (
            ("max_requests", self.max_requests, self.requests),
            ("max_tokens", self.max_tokens, self.tokens),
            ("max_cost", self.max_cost, self.cost),
        ):
            if bound is not None and spent >= bound:
                return name, bound
        return ("deadline", self._end) if self._end is not None and time.monotonic() >= self._end else None
