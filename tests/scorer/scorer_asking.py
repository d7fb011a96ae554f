"""Small ways to make items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from lynceus.scorer.v1 import scorer_pb2 as pb

Ask = Callable[..., Awaitable[tuple[list[pb.Verdict], pb.Summary | None]]]


def likelihood(key: str, chosen: int, right: int, **fields: object) -> pb.ScoreRequest:
    """Returns a request of four options of which `chosen` is the likeliest."""
    request = pb.ScoreRequest(key=key, rule="likelihood", options="1234", targets=[str(right + 1)], **fields)
    for place in range(4):
        request.scores.add(logprob=-1.0 if place == chosen else -5.0, token_count=1)
    return request


def passed(key: str, outcome: str, score: float | None = None, **fields: object) -> pb.ScoreRequest:
    """Returns a request with a verdict reached before."""
    request = pb.ScoreRequest(key=key, **fields)
    request.verdict.outcome = outcome
    if score is not None:
        request.verdict.score = score
    return request
