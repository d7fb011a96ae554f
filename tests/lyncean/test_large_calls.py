"""Large requests: the same call on the wire, and nothing of them is held while the peer works."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from lyncean.rpc import PLAIN, CallError, call_large
from lyncean.rpc.channel import NotSentError
from orchestrator.engine.replica import Replica
from orchestrator.engine.wire import Request

SIZE = 8_000_000


class Held(grpc.GenericRpcHandler):
    """Answers each request with its size, once it may; its method is one of a request and a response."""

    def __init__(self) -> None:
        self.come, self.go = 0, asyncio.Event()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def reply(size: int, context: Any) -> bytes:
            self.come += 1
            await self.go.wait()
            if details.method.endswith("Refused"):
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
            return b"%d" % size

        return grpc.unary_unary_rpc_method_handler(reply, request_deserializer=len)


@asynccontextmanager
async def serving(handler: Held) -> AsyncIterator[tuple[grpc.aio.Server, grpc.aio.Channel, str]]:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers([handler])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield server, channel, f"127.0.0.1:{port}"
    await server.stop(None)


def ours() -> int:
    """Returns the bytes of requests that the caller holds; the server is of this process, too, and holds its own."""
    traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/lyncean/rpc/channel.py")])
    return sum(trace.size for trace in traces.traces)


async def test_nothing_of_a_large_request_is_held_until_its_answer() -> None:
    handler = Held()
    async with serving(handler) as (_, channel, _):
        method = channel.stream_unary("/any.Service/Method")
        pieces = [bytes(SIZE // 2)] * 2
        tracemalloc.start()
        try:
            calls = [asyncio.create_task(call_large(method, pieces, timeout=300)) for _ in range(4)]
            while handler.come < len(calls):
                await asyncio.sleep(0.01)
            while ours() > SIZE / 10:  # gRPC says some rounds later that all is sent; held ones never leave
                await asyncio.sleep(0.01)
        finally:
            tracemalloc.stop()
        handler.go.set()
        assert await asyncio.gather(*calls) == [b"%d" % SIZE] * 4


async def test_a_refusal_of_a_large_request_keeps_its_status() -> None:
    handler = Held()
    handler.go.set()
    async with serving(handler) as (_, channel, _):
        with pytest.raises(CallError, match="full") as refused:
            await call_large(channel.stream_unary("/any.Service/Refused"), [bytes(SIZE)], timeout=300)
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_call_that_breaks_while_it_is_sent_is_made_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status is then the one that gRPC hides: here that of a server that is gone."""

    async def broken(*_: object, **__: object) -> None:
        raise NotSentError

    monkeypatch.setattr("orchestrator.engine.replica.call_large", broken)
    async with serving(Held()) as (server, _, address):
        replica = Replica(address, PLAIN, None)
        await server.stop(None)
        ending = await replica.ask(Request("Generate", [bytes(SIZE)]), 300)
        await replica.close()
    assert isinstance(ending, CallError)
    assert ending.code is grpc.StatusCode.UNAVAILABLE


async def test_a_request_that_is_made_in_one_piece_has_the_rest_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that takes nothing of it until the deadline is not waited for twice."""
    left: list[float] = []

    async def broken(*_: object, timeout: float, **__: object) -> None:
        await asyncio.sleep(0.01)
        raise NotSentError

    async def call(*_: object, timeout: float, **__: object) -> None:
        left.append(timeout)

    monkeypatch.setattr("orchestrator.engine.replica.call_large", broken)
    monkeypatch.setattr("orchestrator.engine.replica.call", call)
    replica = Replica("127.0.0.1:1", PLAIN, None)
    for timeout in (300, 0.001):
        await replica._call(Request("Generate", [bytes(SIZE)]), timeout)
    await replica.close()
    assert 0 < left[0] < 300
    assert left[1] == 0


async def test_a_server_that_goes_while_it_is_sent_to_is_not_a_defect() -> None:
    reads = asyncio.Event()

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reads.wait()
        writer.transport.abort()

    peer = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{peer.sockets[0].getsockname()[1]}") as channel:
        calling = asyncio.create_task(call_large(channel.stream_unary("/a.B/C"), [bytes(SIZE)], timeout=300))
        await asyncio.sleep(0.1)
        reads.set()
        peer.close()
        with pytest.raises((CallError, NotSentError)) as broken:
            await calling
    assert getattr(broken.value, "code", None) in (None, grpc.StatusCode.UNAVAILABLE)
