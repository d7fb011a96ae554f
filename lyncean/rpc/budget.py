"""Budget of calls: requests, tokens, money, requests a second, time."""

from __future__ import annotations

import time
from typing import NamedTuple


class Prices(NamedTuple):
    """Prices of a million tokens.

    Attributes:
        input: Input tokens.
        output: Output tokens.
        cached: Input tokens read from a cache; None for the price of other input tokens.
        reasoning: Output tokens of reasoning; None for the price of other output tokens.
    """

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None
    reasoning: float | None = None

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0, reasoning_tokens: int = 0) -> float:
        """Returns the cost; cached tokens are part of the input, reasoning tokens of the output."""
        cached, thought = min(cached_tokens, input_tokens), min(reasoning_tokens, output_tokens)
        read = (input_tokens - cached) * self.input
        read += cached * (self.input if self.cached is None else self.cached)
        written = (output_tokens - thought) * self.output
        written += thought * (self.output if self.reasoning is None else self.reasoning)
        return (read + written) / 1e6


class Budget:
    """Bounds on calls, and the usage so far. None means no bound.

    Args:
        max_requests: Largest number of requests.
        max_tokens: Input and output tokens after which nothing more is sent.
        max_cost: Money, in the prices' currency.
        input_price: Price of a million input tokens.
        output_price: Price of a million output tokens.
        max_per_second: Requests a second over all servers.
        deadline: Seconds from now after which nothing more is sent.

    Attributes:
        prices: The prices.
        currency: Their currency, for messages.
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
        self.requests = self.input_tokens = self.output_tokens = self.cached_tokens = self.reasoning_tokens = 0
        self.max_requests, self.max_tokens, self.max_cost = max_requests, max_tokens, max_cost
        self.prices = Prices(input_price, output_price)
        self.currency = ""
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
        return self.prices.cost(self.input_tokens, self.output_tokens, self.cached_tokens, self.reasoning_tokens)

    def wait(self) -> float:
        """Returns the seconds until the next request may be sent; 0 or less is now."""
        return self._next - time.monotonic() if self._gap else 0.0

    def sent(self) -> None:
        """Counts a request."""
        self.requests += 1
        if self._gap:
            # Idle time does not accumulate: the bound exists to prevent bursts.
            self._next = max(self._next, time.monotonic()) + self._gap

    def used(
        self, input_tokens: int, output_tokens: int = 0, cached_tokens: int = 0, reasoning_tokens: int = 0
    ) -> None:
        """Counts the tokens of a response; the last two are parts of the first two."""
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.cached_tokens += cached_tokens
        self.reasoning_tokens += reasoning_tokens

    def reached(self) -> tuple[str, float] | None:
        """Returns the name and value of a reached bound; None while more may be sent.

        Calls in flight may still exceed a bound: their tokens are unknown before they end.
        """
        # Called for each request and answer, so sums without a bound are not computed.
        if self.max_requests is not None and self.requests >= self.max_requests:
            return "max_requests", self.max_requests
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return "max_tokens", self.max_tokens
        if self.max_cost is not None and self.cost >= self.max_cost:
            return "max_cost", self.max_cost
        return ("deadline", self._end) if self._end is not None and time.monotonic() >= self._end else None
