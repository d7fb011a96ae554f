"""The interface of a model: the seam between transport and implementation."""

from __future__ import annotations

import asyncio
import importlib.metadata
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import duration_pb2

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import Unsupported
from lyncean.rpc.addresses import without_password

Output = model.GenerateResponse | BaseException
"""One of several outputs, or its failure."""


class LoadError(UserError):
    """The model cannot be loaded. One line that names the cause and the fix; never retried."""


class Call:
    """Lifetime of one request: its arrival, its deadline, and whether the caller still waits.

    Safe to use from any thread.

    Args:
        timeout: Seconds until the caller gives up; None without a deadline.

    Attributes:
        started: Time at which the model took it, in seconds of the monotonic clock.
        cached_tokens: Prompt tokens that the model had already processed.
    """

    cached_tokens = 0

    def __init__(self, timeout: float | None = None) -> None:
        self.arrived = self.started = time.monotonic()
        self.deadline = None if timeout is None else self.arrived + timeout
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Marks the call as abandoned by its caller."""
        self._cancelled.set()

    def copy(self) -> Call:
        """Returns a call with the same deadline, for one of several outputs of a request."""
        return Call(None if self.deadline is None else self.deadline - time.monotonic())

    @property
    def over(self) -> bool:
        """True once further work is wasted: the call is cancelled or past its deadline."""
        return self._cancelled.is_set() or (self.deadline is not None and time.monotonic() > self.deadline)


class Backend(ABC):
    """A model that answers the contract's requests. They arrive validated (see `model_server.core`).

    Every method but `load` runs on the event loop and must not block it.

    Attributes:
        decodes: Whether images are decoded here: their pixels then count against the memory.
        max_held_bytes: Bytes of files held for requests that send only hashes; None is the default.
    """

    decodes = True
    max_held_bytes: int | None = None

    def load(self) -> None:  # noqa: B027  (most backends need it, a constant one does not)
        """Loads the model; may take minutes. Called once, in a thread of its own.

        Raises:
            LoadError: If it cannot be loaded.
        """

    def verify(self) -> None:  # noqa: B027  (a model that is loaded here stays what it is)
        """Raises Unavailable while another model than the one that `info` describes would answer."""

    @abstractmethod
    def info(self) -> model.GetModelInfoResponse:
        """Describes the loaded model; constant from then on."""

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        """Continues the conversation; every field of `effective_config` that is known is set."""
        raise Unsupported("no_generate", "this model only scores continuations: use Likelihood")

    async def generate_samples(self, requests: Sequence[model.GenerateRequest], call: Call) -> list[Output]:
        """Continues one conversation several times; each output has a request of its own, in the same order.

        Args:
            requests: Requests that differ only in their seeds, with one output each.
            call: The lifetime that all of them share.
        """
        return await asyncio.gather(*(self.generate(request, call) for request in requests), return_exceptions=True)

    async def likelihood(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        """Scores the continuations, in their order."""
        raise Unsupported("no_likelihood", "this model does not score continuations: use Generate")

    async def close(self) -> None:  # noqa: B027
        """Frees what `load` took, after the last call."""


def describe(
    claims: Mapping[model.Capability.ValueType, bool], *, model_name: str, **fields: Any
) -> model.GetModelInfoResponse:
    """Returns a description of a model.

    Args:
        claims: Whether the model has each capability.
        model_name: Its name; a password in it is removed before it reaches results.
        fields: Further fields of the response.
    """
    return model.GetModelInfoResponse(
        model_name=without_password(model_name),
        server_version=f"lyncean {importlib.metadata.version('lyncean')}",
        capabilities=[capability for capability, claimed in claims.items() if claimed],
        **fields,
    )


def continuation_score(
    logprob: float,
    tokens: Sequence[tuple[bytes, float]],
    is_greedy: bool,
    with_tokens: bool,
    ids: Sequence[int] = (),
) -> model.ContinuationScore:
    """Returns a continuation's score.

    Args:
        logprob: Its log-probability.
        tokens: Each token's bytes and log-probability.
        is_greedy: Whether greedy decoding would have produced it.
        with_tokens: Whether the tokens are wanted.
        ids: The tokens' numbers; empty where they are not known.
    """
    score = model.ContinuationScore(logprob=logprob, token_count=len(tokens), is_greedy=is_greedy)
    if with_tokens:
        score.tokens.extend(model.TokenLogprob(token=token, logprob=value) for token, value in tokens)
        for token, number in zip(score.tokens, ids, strict=False):
            token.token_id = number
    return score


def seconds(value: float) -> duration_pb2.Duration:
    """Returns a duration of so many seconds; a negative one counts as 0."""
    duration = duration_pb2.Duration()
    duration.FromNanoseconds(max(0, round(value * 1e9)))
    return duration


def usage_since(queued: float, started: float, **tokens: int) -> model.Usage:
    """Returns the usage of a request that has just ended.

    Args:
        queued: Time at which it entered the queue, in seconds of the monotonic clock.
        started: Time at which the model took it, likewise.
        tokens: Token counts, by their names in `Usage`.
    """
    now = time.monotonic()
    usage = model.Usage(queue_time=seconds(started - queued), model_time=seconds(now - started))
    for name, count in tokens.items():
        setattr(usage, name, count)
    return usage
