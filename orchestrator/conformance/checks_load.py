"""Many requests at once, requests that nobody waits for any more, messages of any size; one by one and in a Batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import MAX_MESSAGE_BYTES, CallError
from orchestrator.conformance.check import applies, check, wants
from orchestrator.conformance.server import (
    LATE,
    MOST,
    Request,
    Server,
    at_once,
    generation,
    in_batch,
    refusal,
    response_of,
    same_answers,
    scoring,
    together,
    user,
)
from orchestrator.engine.batch import Ending

_TOO_LARGE = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE)
_LARGE = 5 << 20  # beyond the 4 MiB that gRPC libraries receive by default
_LARGEST = 128 << 20


@check
async def parallel_equals_serial(server: Server) -> str:
    """Different requests one by one and all at once."""
    names = ("red", "blue", "green", "black", "white", "grey", "pink", "brown")
    prompts = [f"Round {number}: write about the colour {names[number % 8]}." for number in range(server.parallel)]
    generates = server.claims("GENERATE")
    requests = [generation(prompt) if generates else scoring([prompt], ["red", "blue"]) for prompt in prompts]
    await same_answers(server, requests, at_once)
    return f"{len(prompts)} at once"


@check
async def cancellation_frees_the_slot(server: Server) -> None:
    """Long requests are abandoned, twice as many as the server takes; a small one is answered still."""
    await _abandon(lambda: [server.send(story(server, number)) for number in range(server.parallel)])
    await server.alive("cancelled requests")


@check
async def deadline_is_honoured(server: Server) -> None:
    """Long requests with too little time end as DEADLINE_EXCEEDED or in time; a small one is answered still."""
    stories = [story(server, number) for number in range(server.parallel)]
    _late(await at_once(server, stories, timeout=0.03), "a call")
    await server.alive("requests whose deadline had passed")


@check
async def batch_gives_places_back(server: Server) -> None:
    """Batches of long calls are abandoned or have too little time; a small request is answered still."""
    stories = [story(server, number) for number in range(max(1, min(server.info.max_concurrency, MOST)))]
    await _abandon(lambda: [in_batch(server, stories) for _ in range(2)])
    await server.alive("cancelled Batches")
    for endings in await asyncio.gather(*(in_batch(server, stories, timeout=0.03) for _ in range(2))):
        _late(endings, "a call of a Batch")
    await server.alive("Batches whose deadline had passed")


@check
async def accepts_large_requests(server: Server) -> str:
    """A request beyond gRPC's own 4 MiB, of a size that the server says it takes."""
    limit = server.info.max_request_bytes
    applies(limit > 0, "the server states no max_request_bytes")
    return await _takes(server, 1, min(limit, _LARGE) - 4096)


@check
async def refuses_oversize_messages(server: Server) -> str:
    """A request beyond the limit is refused and the server goes on."""
    size = (server.info.max_request_bytes or MAX_MESSAGE_BYTES) + 1_000_000
    applies(size <= _LARGEST, f"max_request_bytes is {server.info.max_request_bytes:,}: too large to go beyond")
    return await _refuses(server, 1, size)


@check
async def batch_sizes_count_together(server: Server) -> str:
    """Two calls, together within the limit and beyond gRPC's own 4 MiB; then beyond the limit."""
    limit = server.info.max_request_bytes
    applies(limit > 0, "the server states no max_request_bytes")
    together(server)
    taken = await _takes(server, 2, min(limit, _LARGE) * 9 // 10)
    if limit + 1_000_000 > _LARGEST:
        return f"{taken} taken"
    return f"{taken} taken, {await _refuses(server, 2, limit + 1_000_000)}"


async def _takes(server: Server, calls: int, size: int) -> str:
    for ending in await _send(server, calls, size):
        response_of(ending, f"a request of {size:,} bytes")
    return f"{size:,} bytes"


async def _refuses(server: Server, calls: int, size: int) -> str:
    endings = await _send(server, calls, size)
    codes = {refusal(ending, f"a request of {size:,} bytes", *_TOO_LARGE).code.name for ending in endings}
    await server.alive("an oversize request")
    return f"{size:,} bytes: {' and '.join(sorted(codes))}"


async def _abandon(begin: Callable[[], Sequence[Coroutine[Any, Any, object]]]) -> None:
    """Begins calls and cancels them, after 10 and after 50 ms."""
    for pause in (0.01, 0.05):
        calls = [asyncio.ensure_future(call) for call in begin()]
        await asyncio.sleep(pause)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


def _late(endings: Sequence[Ending], case: str) -> None:
    for ending in endings:
        late = not isinstance(ending, CallError) or ending.code in LATE
        wants(late, f"{case} whose time was over: {ending}")


def story(server: Server, number: int) -> model.GenerateRequest:
    """Returns a request whose answer takes a model its time."""
    limit = server.info.max_context_tokens
    length = max(16, min(1024, limit // 2)) if limit else 256
    return generation(f"Story {number}: tell a very long story.", max_output_tokens=length)


def _padded(server: Server, size: int) -> Request:
    """A small request made large by a field that no version of the contract has."""
    request = server.request(user("Hello"))
    size = max(0, size)  # a server may state less than any request has
    length, encoded = size, b""
    while length > 127:
        encoded += bytes([length & 127 | 128])
        length >>= 7
    padding = b"\xfa\x3e" + encoded + bytes([length]) + bytes(size)
    return type(request).FromString(request.SerializeToString() + padding)


async def _send(server: Server, calls: int, size: int) -> list[Ending]:
    """Makes one call, or some in a Batch, of a size that other clients refuse before it is sent."""
    options: list[tuple[str, Any]] = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    tls = server.credentials.tls
    if tls is None:
        channel = grpc.aio.insecure_channel(server.address, options=options)
    else:
        named = [("grpc.ssl_target_name_override", tls.server_name)] if tls.server_name else []
        channel = grpc.aio.secure_channel(server.address, tls.channel_credentials(), options=[*options, *named])
    async with channel:
        unbounded = replace(server, channel=channel)
        requests = [_padded(server, size // calls)] * calls
        return await (in_batch if calls > 1 else at_once)(unbounded, requests)
