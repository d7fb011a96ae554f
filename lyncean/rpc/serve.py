"""Serving for all services: limits, TLS, token, health, reflection, errors and drain."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from lyncean.errors import UserError
from lyncean.rpc.errors import StatusError, Unauthenticated, status_of, trailing_metadata
from lyncean.rpc.heap import keep_freed_memory
from lyncean.rpc.limits import SERVER_OPTIONS
from lyncean.rpc.security import Tls
from lyncean.rpc.settings import ServerConfig

log = logging.getLogger(__name__)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]
_OPEN_TO_ALL = ("/grpc.health.v1.Health/",)
_LINGER = 2.0
"""Seconds that threads may keep running after the drain."""


class BindError(UserError):
    """The port cannot be bound. A configuration mistake: never retried."""


class Server:
    """A gRPC server with health and reflection. Bind first, load later, then `set_serving`.

    Args:
        config: Where and how to listen.
        service: Full name of the one service, for example "lyncean.model.v1.ModelService".
        add: Registers the servicer, for example a generated `add_..._to_server`, bound.
    """

    def __init__(self, config: ServerConfig, service: str, add: Callable[[grpc.aio.Server], None]) -> None:
        self.config = config
        self.service = service
        self.port = 0
        self._stopping: asyncio.Event | None = None
        keep_freed_memory()
        self._health = HealthServicer()
        options = list(SERVER_OPTIONS)
        if config.max_connection_age is not None:
            options += [
                ("grpc.max_connection_age_ms", int(config.max_connection_age * 1000)),
                ("grpc.max_connection_age_grace_ms", int(config.grace * 1000)),
            ]
        interceptors: list[grpc.aio.ServerInterceptor] = [StatusInterceptor()]
        if config.token:
            interceptors.append(TokenInterceptor(config.token))
        self._server = grpc.aio.server(interceptors=interceptors, options=options)
        add(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (service, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), self._server)
        self._probe = grpc.aio.server(options=SERVER_OPTIONS) if config.health_port is not None else None
        if self._probe:
            health_pb2_grpc.add_HealthServicer_to_server(self._health, self._probe)

    def catch_signals(self) -> None:
        """Drains on SIGTERM or SIGINT; a second signal ends the process at once.

        `start` calls this if there is a port file, whose reader may send a signal as soon as it exists.
        """
        if self._stopping:
            return
        stopping = self._stopping = asyncio.Event()

        def ask() -> None:
            if stopping.is_set():
                os._exit(130)
            stopping.set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ask)

    async def start(self) -> int:
        """Binds, starts answering health, and returns the port.

        Raises:
            BindError: If a port is taken, an address is not this host's or the port file cannot be written.
            SecurityError: If TLS files cannot be read.
        """
        config = self.config
        if config.port_file:
            self.catch_signals()
        host = f"[{config.host}]" if ":" in config.host else config.host
        self.port = _bind(self._server, f"{host}:{config.port}", config.tls)
        if self._probe:
            _bind(self._probe, f"{host}:{config.health_port}", None)
        await self._health.set("", SERVING)
        await self._health.set(self.service, NOT_SERVING)
        await self._server.start()
        if self._probe:
            await self._probe.start()
        try:
            write_port(config.port_file, self.port)
        except BindError:
            await self.stop()
            raise
        return self.port

    async def set_serving(self, serving: bool = True) -> None:
        """Reports through health whether requests are answered."""
        await self._health.set(self.service, SERVING if serving else NOT_SERVING)

    async def stop(self) -> None:
        """Drains: health reports NOT_SERVING, new calls are refused, calls in flight finish."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(self.config.grace)
        if self._probe:
            await self._probe.stop(0)

    async def run_until_signal(self, draining: Callable[[], None] = lambda: None) -> None:
        """Serves until SIGTERM or SIGINT, then drains. A second signal ends at once.

        Args:
            draining: Called when the drain begins.
        """
        self.catch_signals()
        assert self._stopping
        await self._stopping.wait()
        log.info("draining: up to %.0f s for calls in flight", self.config.grace)
        draining()
        await self.stop()


def write_port(file: Path | None, port: int) -> None:
    """Writes a bound port into a file, if one is named.

    Raises:
        BindError: It cannot be written.
    """
    if file:
        try:
            partial = file.with_suffix(".partial")
            partial.write_text(f"{port}\n")
            partial.replace(file)
        except OSError as error:
            raise BindError(f"cannot write the port to {file}: {error.strerror}") from error


def _bind(server: grpc.aio.Server, address: str, tls: Tls | None) -> int:
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, tls.server_credentials())
    except RuntimeError as error:
        raise BindError(f"cannot listen on {address}: is the port taken, or the address not this host's?") from error
    if port == 0:
        raise BindError(f"cannot listen on {address}: is the port taken?")
    return int(port)


class StatusInterceptor(grpc.aio.ServerInterceptor):
    """Turns exceptions into status codes, for all services.

    A `StatusError` becomes its code with ErrorInfo; any other exception is a defect: INTERNAL
    with only the exception's type, and a traceback in the server's log.
    """

    async def intercept_service(self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Wraps the handler of the call."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(_OPEN_TO_ALL):
            return handler
        return _replaced(handler, _guard_unary, _guard_stream)


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without the bearer token; health is open so that probes work."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    async def intercept_service(self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Passes the call on, or answers UNAUTHENTICATED before the request is read."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(_OPEN_TO_ALL):
            return handler
        metadata: Iterable[tuple[str, str | bytes]] = handler_call_details.invocation_metadata or ()
        for key, value in metadata:
            if key == "authorization":
                data = value.encode() if isinstance(value, str) else value
                if hmac.compare_digest(data, self._expected):
                    return handler
        return _replaced(handler._replace(request_deserializer=None), lambda _: _deny, lambda _: _deny_stream)


def _replaced(handler: Any, unary: Callable[[Any], Any], stream: Callable[[Any], Any]) -> Any:
    """Wraps a handler's method: with `stream` if its responses are a stream, else with `unary`."""
    for kind, wrap in (("unary_unary", unary), ("unary_stream", stream), ("stream_stream", stream)):
        if method := getattr(handler, kind):
            return handler._replace(**{kind: wrap(method)})
    return handler


async def _deny(_: Any, context: Any) -> None:
    message = "the bearer token is missing or wrong: set --token-file or LYNCEAN_TOKEN"
    await _abort(context, Unauthenticated("bad_token", message))


async def _deny_stream(requests: Any, context: Any) -> AsyncIterator[bytes]:
    await _deny(requests, context)
    yield b""


async def _abort(context: Any, error: StatusError) -> None:
    await context.abort(error.code, str(error), trailing_metadata=trailing_metadata(error))


def _guard_unary(handler: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Any]:
    async def guarded(request: Any, context: Any) -> Any:
        try:
            return await handler(request, context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await _abort(context, status_of(error))

    return guarded


def _guard_stream(handler: Callable[[Any, Any], AsyncIterator[Any]]) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def guarded(requests: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for response in handler(requests, context):
                yield response
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await _abort(context, status_of(error))

    return guarded


def exit_soon() -> None:
    """Ends the process soon, even if a thread still works for an abandoned call: Python waits for its threads."""
    timer = threading.Timer(_LINGER, os._exit, (0,))
    timer.daemon = True
    timer.start()
