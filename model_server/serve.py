"""Lifecycle of a server: bind, load, serve, drain."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from lyncean.model.v1 import model_pb2_grpc as model_grpc
from lyncean.rpc import BindError, Server, ServerConfig
from lyncean.rpc.logs import log_to_stderr
from lyncean.rpc.serve import exit_soon, write_port
from model_server.backend import Backend
from model_server.core import Core
from model_server.fronts import front_named
from model_server.metrics import Metrics
from model_server.service import NAME, ModelServicer
from model_server.tracing import Tracing

log = logging.getLogger(__name__)
Make = Callable[[Metrics], Backend]
"""Builds a backend without loading it."""


async def serve(
    backend: Backend,
    config: ServerConfig,
    *,
    metrics: Metrics | None = None,
    front_at: tuple[str, int] | None = None,
    anew: Callable[[], Backend] | None = None,
) -> None:
    """Serves a backend until SIGTERM or SIGINT, then drains.

    The port is bound first, so that health can say NOT_SERVING while the model loads. A signal in that time ends the
    process at once, with exit code 0.

    Args:
        backend: The model.
        config: Address, TLS, token and drain of the server.
        metrics: The server's counters.
        front_at: Name and port of a front of the same model; None for none.
        anew: Makes the backend to load at SIGUSR1; None ignores the signal.

    Raises:
        UserError: If the model cannot be loaded, at SIGUSR1 as well, or tracing or the front is not installed.
        BindError: If the port cannot be bound.
        SecurityError: If TLS files cannot be read.
    """
    core = Core(backend)
    servicer = ModelServicer(core, metrics or Metrics(), Tracing.from_environment())
    server = Server(config, NAME, lambda target: model_grpc.add_ModelServiceServicer_to_server(servicer, target))
    front = front_named(front_at[0]).beside(servicer, config, front_at[1]) if front_at else None
    server.catch_signals()
    again = asyncio.Event()
    if anew is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, again.set)
    await server.start()
    if front:
        front.start()
    log.info("listening on %s:%d, loading the model", config.host, server.port)
    signalled = asyncio.ensure_future(server.run_until_signal(front.drain if front else lambda: None))
    loading = asyncio.ensure_future(_load(backend))
    try:
        await asyncio.wait({signalled, loading}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            await server.stop()
            _leave()
        loading.result()
        del backend  # `core` owns it, and later its replacement
        core.ready()
        await server.set_serving()
        log.info("serving %s on %s:%d", _name(core), config.host, server.port)
        if anew is not None:
            await _reload_at_signals(core, server, signalled, again, anew)
        await signalled
        if front:
            await front.stop()
        await core.backend.close()
    finally:
        signalled.cancel()
        loading.cancel()
        if front:
            await front.stop()
        await server.stop()


def _name(core: Core) -> str:
    return " ".join(core.info().model_name.split())


async def _reload_at_signals(
    core: Core, server: Server, ended: asyncio.Future[None], again: asyncio.Event, anew: Callable[[], Backend]
) -> None:
    """Reloads the model from its folder or link at each SIGUSR1 until the server ends.

    Calls in flight are answered by the model that they were sent to; later calls get "loading". The new model has its
    own revision and boot_id, so that an evaluation of the previous one refuses it. Files that are held by their hash
    stay. The old weights are freed first, and new ones that cannot be loaded end the server.
    """
    while await _first(again.wait(), ended):
        again.clear()
        log.info("loading the model anew")
        closing = asyncio.ensure_future(core.close())
        await server.set_serving(False)
        if not await _first(closing, ended):
            return
        write_port(server.config.port_file, server.port)  # the sender of the signal may wait for the old model to end
        core.backend = anew()
        gc.collect()  # the old weights, before memory is needed for new ones
        if not await _first(_load(core.backend), ended):
            await server.stop()
            _leave()
        core.ready()
        await server.set_serving()
        log.info("serving %s", _name(core))


async def _first(work: Awaitable[Any], ended: asyncio.Future[None]) -> bool:
    """Returns True if the work is done before the server ends; raises the work's exception."""
    running = asyncio.ensure_future(work)
    both: set[asyncio.Future[Any]] = {running, ended}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        running.cancel()
        return False
    running.result()
    return True


def _leave() -> NoReturn:
    """Ends the process after a signal during the load, when there is nothing to drain.

    Taking down the interpreter would unwind the loading thread out of native code, which aborts the process.
    """
    logging.shutdown()
    os._exit(0)


async def _load(backend: Backend) -> None:
    """Loads in a daemon thread, so that a signal during a long load ends the process at once."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(failure: BaseException | None) -> None:
        if failure is not None and not done.done():
            done.set_exception(failure)
        elif not done.done():
            done.set_result(None)

    def work() -> None:
        failure: BaseException | None = None
        try:
            backend.load()
        except BaseException as error:  # the waiting side raises it
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, failure)

    threading.Thread(target=work, name="load", daemon=True).start()
    await done


def run(make: Make, config: ServerConfig, metrics_port: int | None, front_at: tuple[str, int] | None = None) -> None:
    """Serves until a signal.

    Args:
        make: Builds the backend.
        config: Address, TLS, token and drain of the server.
        metrics_port: Port for Prometheus metrics; None for none.
        front_at: Name and port of a front; None for none.

    Raises:
        UserError: As `serve`; or the metrics' port cannot be bound.
    """
    log_to_stderr("model-server: %(message)s")
    metrics = Metrics()
    if metrics_port is not None:
        try:
            log.info("metrics on http://%s:%d/metrics", config.host, metrics.listen(config.host, metrics_port))
        except OSError as error:
            where = f"metrics port {config.host}:{metrics_port}"
            raise BindError(f"cannot listen on {where}: {error.strerror}") from error
    asyncio.run(serve(make(metrics), config, metrics=metrics, front_at=front_at, anew=lambda: make(metrics)))
    exit_soon()
