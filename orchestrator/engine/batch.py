"""Several calls in one Batch RPC: bundling of requests, results per call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import MAX_MESSAGE_BYTES, CallError
from lyncean.rpc.errors import seconds_of
from orchestrator.engine.check import bad_response, checked
from orchestrator.engine.wire import Request, Response

MOST_CALLS = 16
MOST_BYTES = 2 * 1024 * 1024
"""Half of a gRPC server's default limit."""
_FRAMING = 32

Check = Callable[[Response, Request], Response]
Ending = Response | CallError
"""The response or failure of a call."""
Answer = tuple[int, Ending]
"""A call's index among those sent, and its response or failure."""

_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def bundles(
    requests: Sequence[Request], most: int, max_request_bytes: int = 0, held: Callable[[bytes], bool] | None = None
) -> Iterator[range]:
    """Cuts calls into ranges, one for each Batch.

    Args:
        requests: The calls' requests.
        most: Calls of a Batch at most.
        max_request_bytes: The server's limit, 0 if it stated none.
        held: Whether the server holds the file of a SHA-256, so that its bytes are not sent; those of the others are
            sent once in each Batch. None if all bytes are always sent.
    """
    stated = max(max_request_bytes - _FRAMING * most, 0)
    limit = min(MOST_BYTES, stated or MOST_BYTES)
    start = size = full_size = 0
    sent: set[bytes] = set()
    for index, request in enumerate(requests):
        more = _sent_bytes(request, held, sent)
        large = size + more > limit or full_size + request.size > (stated or MAX_MESSAGE_BYTES)
        if index > start and (index - start >= most or large):
            yield range(start, index)
            start, size, full_size, sent = index, 0, 0, set()
            more = _sent_bytes(request, held, sent)
        size += more
        full_size += request.size
    if start < len(requests):
        yield range(start, len(requests))


def _sent_bytes(request: Request, held: Callable[[bytes], bool] | None, sent: set[bytes]) -> int:
    """Returns the bytes that a request adds to a Batch without files held or sent already; adds its files to `sent`."""
    if held is None:
        return request.size
    size = request.size
    for sha256, bytes_ in request.files:
        if sha256 in sent or held(sha256):
            size -= bytes_
        sent.add(sha256)
    return size


def answers_of(
    response: model.BatchResponse | None, requests: Sequence[Request], check: Check = checked
) -> Iterator[Answer]:
    """Yields the answers of a BatchResponse. Results for calls that were not made are passed over.

    Args:
        response: One response of the stream; None if its bytes are not a message.
        requests: The requests, as sent.
        check: Check of each answer.

    Raises:
        CallError: If the response is not a message.
    """
    if response is None:
        raise bad_response("the server's bytes are no BatchResponse")
    for result in response.results:
        if result.index < len(requests):
            yield result.index, _answer(result, requests[result.index], check)


async def as_they_end(calls: Mapping[int, Coroutine[Any, Any, Ending]]) -> AsyncIterator[list[Answer]]:
    """Yields the answers of calls as they come; those still under way end with whoever awaits them."""
    left = {asyncio.create_task(call): index for index, call in calls.items()}
    try:
        while left:
            done, _ = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            yield [(left.pop(task), task.result()) for task in done]
    finally:
        for task in left:
            task.cancel()


def outputs_of(response: Response | None, requests: Sequence[Request], check: Check = checked) -> list[Ending]:
    """Returns the outputs, each as the response to a request by itself, or their failures.

    Args:
        response: The answer to a request for all of them; None if its bytes are not a message.
        requests: The request of each.
        check: Check of each output.

    Raises:
        CallError: If a request has no result, or more than one.
    """
    if not isinstance(response, model.GenerateResponse):
        raise bad_response("the server's bytes are no GenerateResponse")
    if len(response.samples) != len(requests):
        raise bad_response(f"it has {len(response.samples)} samples, and {len(requests)} were asked for")
    return [
        _output(result, response, request, check) for result, request in zip(response.samples, requests, strict=True)
    ]


def _output(result: model.SampleResult, answer: model.GenerateResponse, request: Request, check: Check) -> Ending:
    kind = result.WhichOneof("result")
    if kind == "status":
        return CallError.from_status(result.status)
    # The two messages have the same fields, under the same numbers.
    response = model.GenerateResponse.FromString(result.output.SerializeToString())
    if answer.HasField("served_by"):
        response.served_by.CopyFrom(answer.served_by)
    try:
        return check(response, request) if kind else bad_response("a sample has neither output nor status")
    except CallError as error:
        return error


def _answer(result: model.BatchResult, request: Request, check: Check) -> Ending:
    kind = result.WhichOneof("result")
    try:
        if kind == "generate" and request.method == "Generate":
            return check(result.generate, request)
        if kind == "likelihood" and request.method == "Likelihood":
            return check(result.likelihood, request)
    except CallError as error:
        return error
    if kind == "status":
        return CallError.from_status(result.status)
    if kind == "failure":  # of a server that does not know `status`
        failure = result.failure
        code = _CODES.get(failure.code, grpc.StatusCode.UNKNOWN)
        if code is not grpc.StatusCode.OK:
            pause = seconds_of(failure.retry_delay)
            return CallError(code, failure.reason, failure.message or code.name, failure.metadata, pause)
    return CallError(
        grpc.StatusCode.INTERNAL,
        "bad_batch_result",
        f"the server's Batch answered a call of {request.method} with {kind or 'nothing'}",
    )
