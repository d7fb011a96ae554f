"""TLS, token and drain: judged where this client was given what they take."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import PLAIN, CallError, Credentials, dial, is_serving
from orchestrator.conformance.check import Broken, applies, check, wants
from orchestrator.conformance.server import SERVICE, Server, generation, in_batch, refusal, user
from orchestrator.engine.batch import Ending


@check
async def tls_is_demanded(server: Server) -> None:
    """A plaintext client gets no answer."""
    applies(server.credentials.tls is not None, "the connection is plaintext; give --tls-ca to judge TLS")
    ending = await _info(server, replace(server.credentials, tls=None))
    wants(isinstance(ending, CallError), "a client without TLS was answered")


@check
async def token_is_demanded(server: Server) -> None:
    """No token, and a wrong one."""
    await _without_token(server, "call", _info)


@check
async def batch_token_is_demanded(server: Server) -> None:
    """A Batch with no token, and with a wrong one."""
    await _without_token(server, "Batch", _batch)


@check
async def drains_on_sigterm(server: Server) -> str:
    """SIGTERM with calls in flight: they end, health says NOT_SERVING or the port is closed."""
    applies(server.pid is not None, "the server would have to be ended; give --drain-pid PID to judge it")
    story = generation("Tell a long story.", max_output_tokens=64)
    request = story if server.claims("GENERATE") else server.request(user("Hello"))
    calls = [asyncio.ensure_future(server.send(request)) for _ in range(2)]
    await asyncio.sleep(0.02)
    os.kill(int(server.pid or 0), signal.SIGTERM)
    ends = await asyncio.gather(*calls, return_exceptions=True)
    for end in ends:
        if isinstance(end, CallError) and end.code is not grpc.StatusCode.UNAVAILABLE:
            raise Broken(f"a call in flight ended with {end.code.name}: {end}")
    until = time.monotonic() + server.timeout
    while await _serves(server):
        wants(time.monotonic() < until, f"{server.timeout:.0f} s after SIGTERM health is SERVING still")
        await asyncio.sleep(0.05)
    answered = sum(not isinstance(end, BaseException) for end in ends)
    return f"{answered} of {len(ends)} calls in flight were answered"


async def _without_token(
    server: Server, kind: str, attempt: Callable[[Server, Credentials], Awaitable[Ending | None]]
) -> None:
    """Raises `Broken` unless calls of a kind end with UNAUTHENTICATED, without a token and with a wrong one."""
    token = server.credentials.token
    applies(token is not None, "no token was given; give --token-file to judge it")
    for case, other in (("no token", None), ("a wrong token", f"not-{token}")):
        ending = await attempt(server, Credentials(server.credentials.tls, other))
        refusal(ending, f"a {kind} with {case}", grpc.StatusCode.UNAUTHENTICATED)


async def _info(server: Server, credentials: Credentials) -> CallError | None:
    async with _stranger(server, credentials) as stranger:
        try:
            await stranger.call("GetModelInfo", model.GetModelInfoRequest())
        except CallError as error:
            return error
    return None


async def _batch(server: Server, credentials: Credentials) -> Ending:
    async with _stranger(server, credentials) as stranger:
        return (await in_batch(stranger, [server.request(user("Hello"))]))[0]


@asynccontextmanager
async def _stranger(server: Server, credentials: Credentials) -> AsyncIterator[Server]:
    async with dial(server.address, credentials) as channel:
        yield Server(server.address, credentials, channel, min(server.timeout, 5.0))


async def _serves(server: Server) -> bool:
    # A fresh connection: the one in use lives on while its calls end.
    async with dial(server.address, server.credentials or PLAIN) as channel:
        return await is_serving(channel, SERVICE, timeout=2.0)
