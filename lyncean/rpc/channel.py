"""Dials services; the only module that opens channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2, health_pb2_grpc

from lyncean.errors import UserError
from lyncean.rpc.addresses import refused_user
from lyncean.rpc.errors import CallError
from lyncean.rpc.limits import CHANNEL_OPTIONS, MAX_MESSAGE_BYTES
from lyncean.rpc.settings import PLAIN, Credentials, Metadata

Response = TypeVar("Response", covariant=True)
T = TypeVar("T")


class NotSentError(Exception):
    """A call broke before its request was sent."""


class Method(Protocol[Response]):
    """A method of an aio stub or channel; `Response` is the type of its calls: an awaitable or a stream."""

    def __call__(self, request: Any, /, *, timeout: float | None = None, metadata: Metadata | None = None) -> Response:
        """Starts the call."""


def dial(address: str, credentials: Credentials = PLAIN) -> grpc.aio.Channel:
    """Returns a channel to `host:port`. Nothing is connected until the first call.

    Raises:
        SecurityError: If TLS files cannot be read.
        UserError: If the address names a user or password.
    """
    if reason := refused_user(address):
        raise UserError(f"address {reason}")
    options: list[tuple[str, int | str]] = list(CHANNEL_OPTIONS)
    tls = credentials.tls
    if tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return grpc.aio.secure_channel(address, tls.channel_credentials(), options=options)


def parsing(response: Callable[[bytes], T]) -> Callable[[bytes], T | None]:
    """Returns a deserializer that gives None for invalid bytes; gRPC does too, but prints a traceback."""

    def parse(data: bytes) -> T | None:
        try:
            return response(data)
        except DecodeError:
            return None

    return parse


async def call(
    method: Method[Awaitable[T]],
    request: Message | bytes,
    *,
    timeout: float,
    metadata: Metadata = (),
    max_bytes: int = MAX_MESSAGE_BYTES,
) -> T:
    """Makes one unary call.

    Args:
        method: A method of an aio stub or channel.
        request: Request; serialized already if the method has no serializer.
        timeout: Deadline in seconds.
        metadata: Headers, `Credentials.metadata` among them.
        max_bytes: The limit that the receiver states, if any.

    Raises:
        CallError: For every status but OK, and with INVALID_ARGUMENT, before anything is
            sent, for a request larger than the limit: gRPC itself would report it as
            RESOURCE_EXHAUSTED, which looks like a full queue and would be retried forever.
    """
    check_size(request, max_bytes)
    try:
        return await method(request, timeout=timeout, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        raise CallError.from_rpc(error) from None


async def call_large(
    method: Callable[..., Awaitable[T]], pieces: Iterable[bytes], *, timeout: float, metadata: Metadata = ()
) -> T:
    """Makes one unary call of a large request, of which nothing is held here once it is sent.

    gRPC keeps two copies of a request until its response has come. A stream of one message is the same on the wire,
    and keeps none.

    Args:
        method: A method of a channel that takes a stream and returns one response, without a serializer.
        pieces: The serialized request, of a size that the receiver takes.
        timeout: Deadline in seconds.
        metadata: Headers, `Credentials.metadata` among them.

    Raises:
        CallError: For every status but OK.
        NotSentError: If the call broke before all was sent: gRPC then hides the status that `call` would raise.
    """
    stream: Any = method(timeout=timeout, metadata=metadata)
    try:
        await _write(stream, b"".join(pieces))
        response: T = await stream
        return response
    except grpc.aio.AioRpcError as error:
        raise CallError.from_rpc(error) from None
    finally:
        stream.cancel()


async def _write(stream: Any, data: bytes) -> None:
    try:
        await stream.write(data)
        await stream.done_writing()
    except asyncio.InvalidStateError:
        pass  # the call has ended; its status says why
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.INTERNAL:
            raise NotSentError from None
        raise


async def call_stream(
    method: Method[AsyncIterable[T]],
    request: Message | bytes,
    *,
    timeout: float,
    metadata: Metadata = (),
    max_bytes: int = MAX_MESSAGE_BYTES,
) -> AsyncIterator[T]:
    """Makes one call with a streamed response, and yields the responses as they arrive.

    Arguments and errors are those of `call`; the error may come after some responses.
    """
    check_size(request, max_bytes)
    try:
        async for response in method(request, timeout=timeout, metadata=metadata):
            yield response
    except grpc.aio.AioRpcError as error:
        raise CallError.from_rpc(error) from None


def check_size(request: Message | bytes | int, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
    """Refuses a message, or a size in bytes, above the receiver's limit.

    Raises:
        CallError: INVALID_ARGUMENT with reason `request_too_large`.
    """
    limit = min(max_bytes or MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES)
    size = request if isinstance(request, int) else len(request) if isinstance(request, bytes) else request.ByteSize()
    if size > limit:
        raise CallError(
            grpc.StatusCode.INVALID_ARGUMENT,
            "request_too_large",
            f"the request has {size:,} bytes, the limit is {limit:,}",
            {"limit": str(limit), "size": str(size)},
        )


async def is_serving(channel: grpc.aio.Channel, service: str = "", *, timeout: float = 5.0) -> bool:
    """Returns True if the peer's health service reports SERVING; False also if it cannot be reached."""
    stub: Any = health_pb2_grpc.HealthStub(channel)
    try:
        reply = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout)
    except grpc.aio.AioRpcError:
        return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)
