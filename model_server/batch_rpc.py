"""Batch: several calls in one, each answered as it would be by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Protocol

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest, status_of, status_proto

MOST_CALLS = 1024
"""The contract's bound."""
_RESPONSE_BYTES = 4 * 1024 * 1024


class Calls(Protocol):
    """The methods of a servicer that a Batch calls."""

    async def Generate(self, request: model.GenerateRequest, context: Any) -> model.GenerateResponse:  # noqa: N802
        """Answers one Generate."""

    async def Likelihood(self, request: model.LikelihoodRequest, context: Any) -> model.LikelihoodResponse:  # noqa: N802
        """Answers one Likelihood."""


async def answer_batch(
    servicer: Calls, request: model.BatchRequest, context: Any
) -> AsyncIterator[model.BatchResponse]:
    """Answers the calls of a Batch with the servicer's own Generate and Likelihood, side by side.

    Each response carries all answers that were ready when the transport took it.

    Raises:
        InvalidRequest: If the batch is empty, or has more than MOST_CALLS calls.
    """
    count = len(request.calls)
    if not count:
        raise InvalidRequest("empty_batch", "there are no calls: send at least one")
    if count > MOST_CALLS:
        raise InvalidRequest(
            "too_many_calls",
            f"{count} calls, the limit is {MOST_CALLS}: send them in several",
            limit=str(MOST_CALLS),
            value=str(count),
        )
    done: list[model.BatchResult] = []
    some = asyncio.Event()

    async def answer(index: int, call: model.BatchCall) -> None:
        result = model.BatchResult(index=index)
        try:
            kind = call.WhichOneof("request")
            if kind == "generate":
                result.generate.CopyFrom(await servicer.Generate(call.generate, context))
            elif kind == "likelihood":
                result.likelihood.CopyFrom(await servicer.Likelihood(call.likelihood, context))
            else:
                raise InvalidRequest("empty_call", f"call {index} has no request: set generate or likelihood")
        except Exception as error:
            result.status.CopyFrom(status_proto(status_of(error)))
        done.append(result)
        some.set()

    tasks = [asyncio.create_task(answer(index, call)) for index, call in enumerate(request.calls)]
    left = len(tasks)
    try:
        while left:
            await some.wait()
            some.clear()
            ready = done.copy()
            done.clear()
            left -= len(ready)
            for response in _responses(ready):
                yield response
    finally:
        for task in tasks:
            task.cancel()


def _responses(results: Iterable[model.BatchResult]) -> Iterator[model.BatchResponse]:
    """Splits results over several messages: outputs may be images, and messages have a size limit."""
    response, size = model.BatchResponse(), 0
    for result in results:
        bytes_ = result.ByteSize()
        if response.results and size + bytes_ > _RESPONSE_BYTES:
            yield response
            response, size = model.BatchResponse(), 0
        response.results.append(result)
        size += bytes_
    yield response
