"""What a judge may cost."""

from __future__ import annotations

from dataclasses import dataclass

from scorer.judges.base import JudgeError, Reply


@dataclass(slots=True)
class Budget:
    """Bounds on what is asked, and the account of it. None means no bound.

    Attributes:
        max_requests: Requests that are sent at most.
        max_tokens: Tokens, prompts and replies together.
        max_cost: Money, in the prices' currency.
        input_price: Price of a million prompt tokens.
        output_price: Price of a million reply tokens.
        requests: Requests sent so far.
        input_tokens: Prompt tokens so far.
        output_tokens: Reply tokens so far.
    """

    max_requests: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    input_price: float = 0.0
    output_price: float = 0.0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def cost(self) -> float:
        """What was spent so far."""
        return (self.input_tokens * self.input_price + self.output_tokens * self.output_price) / 1e6

    def take(self) -> None:
        """Accounts for one request about to be sent.

        Raises:
            JudgeError: If a bound is reached. What is in flight may still exceed it by one
                request for each call in flight: its tokens are not known before.
        """
        tokens = self.input_tokens + self.output_tokens
        for bound, spent, name in (
            (self.max_requests, self.requests, "--judge-max-requests"),
            (self.max_tokens, tokens, "--judge-max-tokens"),
            (self.max_cost, self.cost, "--judge-max-cost"),
        ):
            if bound is not None and spent >= bound:
                raise JudgeError("judge_budget", f"the judge's budget is spent: {name} {bound:g} is reached")
        self.requests += 1

    def add(self, reply: Reply) -> None:
        """Accounts for a reply's tokens."""
        self.input_tokens += reply.input_tokens
        self.output_tokens += reply.output_tokens
