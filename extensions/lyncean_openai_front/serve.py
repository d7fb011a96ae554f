"""The life of the front, alone or beside the gRPC server of its process: bind, serve, drain."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import uvicorn

from lyncean.model.v1 import model_pb2_grpc as model_grpc
from lyncean.rpc import PLAIN, BindError, Credentials, SecurityError, ServerConfig, dial, log_to_stderr, write_port
from lyncean_openai_front.app import Front
from lyncean_openai_front.connections import BoundedProtocol, backlog
from lyncean_openai_front.local import LocalStub
from model_server.service import ModelServicer

log = logging.getLogger(__name__)
_TIMEOUT = 600.0
"""Seconds for one call of the process' own model, which has limits of its own."""


def run(endpoint: str, config: ServerConfig, credentials: Credentials, timeout: float) -> None:
    """Serves until SIGTERM or SIGINT, then drains for `config.grace` seconds.

    Raises:
        BindError: If the port cannot be bound, or the port file not written.
        SecurityError: If TLS files cannot be read.
        UserError: If the endpoint names a user or password.
    """
    log_to_stderr("model-server: %(message)s")
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        # Before the port can be known; uvicorn raises the signal again once it has drained.
        signal.signal(number, lambda number, _: asked.append(number))
    asyncio.run(_serve(endpoint, config, credentials, timeout, _bind(config), asked))


async def _serve(
    endpoint: str,
    config: ServerConfig,
    credentials: Credentials,
    timeout: float,
    listening: socket.socket,
    asked: Sequence[int],
) -> None:
    channel = dial(endpoint, credentials)
    front = Front(model_grpc.ModelServiceStub(channel), credentials, timeout, config.token)
    server = uvicorn.Server(settings(front, config))
    log.info("listening on %s:%d before %s", config.host, listening.getsockname()[1], endpoint)
    try:
        with server.capture_signals():
            if not asked:  # a signal that came before uvicorn took them
                await server.serve(sockets=[listening])
    finally:
        await channel.close()


class Beside:
    """The front beside a gRPC server, with that one's address, TLS, token and grace.

    Args:
        servicer: What answers, in this process.
        config: The gRPC server's.
        port: The front's own port; 0 picks a free one.

    Raises:
        BindError: If the port cannot be bound.
        SecurityError: If TLS files cannot be read.
    """

    def __init__(self, servicer: ModelServicer, config: ServerConfig, port: int) -> None:
        self._listening = _bind(replace(config, port=port, port_file=None))
        self._server = _Guest(settings(Front(LocalStub(servicer), PLAIN, _TIMEOUT, config.token), config))
        self._serving: asyncio.Task[None] | None = None
        log.info("HTTP on %s:%d", config.host, self._listening.getsockname()[1])

    def start(self) -> None:
        """Answers from now on, with 503 until the model is loaded."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listening]))

    def drain(self) -> None:
        """Takes no more requests."""
        self._server.should_exit = True

    async def stop(self) -> None:
        """Drains, and waits for what is in flight."""
        self.drain()
        if self._serving:
            await self._serving


class _Guest(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the process' own server."""
        yield


def settings(front: Front, config: ServerConfig) -> uvicorn.Config:
    """Returns uvicorn's settings.

    Raises:
        SecurityError: If TLS files cannot be read.
    """
    more: dict[str, Any] = {}
    if tls := config.tls:
        tls.server_credentials()  # its check names the file that is wrong
        more = {"ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
        if tls.ca:
            more |= {"ssl_ca_certs": str(tls.ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    uvicorn_config = uvicorn.Config(
        front.app(),
        http=BoundedProtocol,
        backlog=backlog(),
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(config.grace)),
        **more,
    )
    try:
        uvicorn_config.load()
    except (OSError, ssl.SSLError) as error:
        raise SecurityError(f"the TLS files cannot be used: {error}") from error
    return uvicorn_config


def _bind(config: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listening = socket.create_server((config.host, config.port), family=family)
    except OSError as error:
        raise BindError(f"cannot listen on {config.host}:{config.port}: {error.strerror}") from error
    write_port(config.port_file, listening.getsockname()[1])
    return listening
