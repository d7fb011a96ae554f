"""Many requests at once, requests that nobody waits for any more, and messages of any size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
from google.protobuf.message import Message

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import MAX_MESSAGE_BYTES, CallError
from orchestrator.conformance.check import check
from orchestrator.conformance.server import PATIENT, Server, generation, text_of, user
from orchestrator.conformance.verdicts import Broken, applies, wants

TOO_LARGE = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE)
LARGE = 5 << 20  # beyond the 4 MiB that gRPC libraries receive by default
LARGEST = 128 << 20
LATE = (grpc.StatusCode.DEADLINE_EXCEEDED, *PATIENT)
"""What a call may end with whose time was over."""


@check
async def parallel_equals_serial(server: Server) -> str:
    """Different requests one by one and all at once."""
    names = ("red", "blue", "green", "black", "white", "grey", "pink", "brown")
    prompts = [f"Round {number}: write about the colour {names[number % 8]}." for number in range(server.parallel)]
    one_by_one = [await _answer(server, prompt) for prompt in prompts]
    at_once = await asyncio.gather(*(_answer(server, prompt) for prompt in prompts))
    same_texts(server, prompts, one_by_one, at_once)
    return f"{len(prompts)} at once"


@check
async def cancellation_frees_the_slot(server: Server) -> None:
    """Long requests are abandoned, twice as many as the server takes; a small one is answered still."""
    await abandon(lambda: [server.send(long(server, number)) for number in range(server.parallel)])
    await server.alive("cancelled requests")


@check
async def deadline_is_honoured(server: Server) -> None:
    """Long requests with too little time end as DEADLINE_EXCEEDED or in time; a small one is answered still."""

    async def hurried(number: int) -> None:
        try:
            await server.call("Generate", long(server, number), timeout=0.03)
        except CallError as error:
            if error.code not in LATE:
                raise Broken(f"a call whose time was over ended with {error.code.name}: {error}") from error

    await asyncio.gather(*(hurried(number) for number in range(server.parallel)))
    await server.alive("requests whose deadline had passed")


@check
async def accepts_large_requests(server: Server) -> str:
    """A request beyond gRPC's own 4 MiB, of a size that the server says it takes."""
    limit = server.info.max_request_bytes
    applies(limit > 0, "the server states no max_request_bytes")
    size = min(limit, LARGE) - 4096
    await _send(server, padded(server, size))
    return f"{size:,} bytes"


@check
async def refuses_oversize_messages(server: Server) -> str:
    """A request beyond the limit is refused and the server goes on."""
    size = (server.info.max_request_bytes or MAX_MESSAGE_BYTES) + 1_000_000
    applies(size <= LARGEST, f"max_request_bytes is {server.info.max_request_bytes:,}: too large to go beyond")
    code = None
    try:
        await _send(server, padded(server, size))
    except CallError as error:
        code = error.code
    wants(code is not None, f"a request of {size:,} bytes was answered; the limit is {size - 1_000_000:,}")
    wants(code in TOO_LARGE, f"a request of {size:,} bytes ended with {code and code.name}")
    await server.alive("an oversize request")
    return f"{size:,} bytes: {code and code.name}"


async def abandon(begin: Callable[[], Sequence[Coroutine[Any, Any, object]]]) -> None:
    """Begins calls and cancels them, after 10 and after 50 ms."""
    for pause in (0.01, 0.05):
        calls = [asyncio.ensure_future(call) for call in begin()]
        await asyncio.sleep(pause)
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


def same_texts(server: Server, prompts: Sequence[str], alone: Sequence[str], among: Sequence[str]) -> None:
    """Raises `Broken` unless the answers to prompts are the same alone and among each other."""
    for prompt, one, other in zip(prompts, alone, among, strict=True):
        if one == other:
            continue
        # Half precision may end a tie the other way in a batch; another's answer is never excusable.
        mixed = other in alone
        if mixed or server.exact:
            whose = f"that of {prompts[alone.index(other)]!r}" if mixed else repr(other)
            raise Broken(f"the answer to {prompt!r} is {one!r} alone and {whose} among {len(prompts)}")


async def _answer(server: Server, prompt: str) -> str:
    """The answer to a prompt; a full queue is asked again, as a client does."""

    async def ask() -> str:
        if server.claims("GENERATE"):
            return text_of(await server.generate(prompt))
        return repr([round(score.logprob, 2) for score in await server.likelihood([prompt], ["red", "blue"])])

    return await server.patiently(ask)


def long(server: Server, number: int) -> model.GenerateRequest:
    """Returns a request whose answer takes a model its time."""
    return generation(f"Story {number}: tell a very long story.", max_output_tokens=_room(server))


def _room(server: Server) -> int:
    limit = server.info.max_context_tokens
    return max(16, min(1024, limit // 2)) if limit else 256


def padded(server: Server, size: int) -> Message:
    """A small request made large by a field that no version of the contract has."""
    request = server.request(user("Hello"))
    length, encoded = size, b""
    while length > 127:
        encoded += bytes([length & 127 | 128])
        length >>= 7
    padding = b"\xfa\x3e" + encoded + bytes([length]) + bytes(size)
    return type(request).FromString(request.SerializeToString() + padding)


@asynccontextmanager
async def unbounded(server: Server) -> AsyncIterator[Server]:
    """Yields the server as seen by a client that sends messages of any size."""
    options: Sequence[tuple[str, Any]] = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    tls = server.credentials.tls
    if tls is None:
        channel = grpc.aio.insecure_channel(server.address, options=options)
    else:
        named = [("grpc.ssl_target_name_override", tls.server_name)] if tls.server_name else []
        channel = grpc.aio.secure_channel(server.address, tls.channel_credentials(), options=[*options, *named])
    async with channel:
        yield replace(server, channel=channel)


async def _send(server: Server, request: Message) -> None:
    """Sends a request of any size: `Server.send` refuses what is too large before it is sent."""
    async with unbounded(server) as wide:
        method = wide.stub.Likelihood if isinstance(request, model.LikelihoodRequest) else wide.stub.Generate
        try:
            await method(request, timeout=server.timeout, metadata=server.credentials.metadata)
        except grpc.aio.AioRpcError as error:
            raise CallError.from_rpc(error) from error
