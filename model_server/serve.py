"""A server's life: bind, load, serve, drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from typing import NoReturn

from lyncean.model.v1 import model_pb2_grpc as model_grpc
from lyncean.rpc import Server, ServerConfig
from model_server.backend import Backend
from model_server.core import Core, Limits
from model_server.metrics import Metrics
from model_server.service import NAME, ModelServicer
from model_server.tracing import Tracing

log = logging.getLogger(__name__)


async def serve(
    backend: Backend,
    config: ServerConfig,
    *,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
) -> None:
    """Serves a backend until SIGTERM or SIGINT, then drains.

    The port is bound first, so that health can say NOT_SERVING while the model loads. A signal in that time ends the
    process at once, with exit code 0.

    Raises:
        LoadError: If the model cannot be loaded, or tracing is asked for and not installed.
        BindError: If the port cannot be bound.
        SecurityError: If TLS files cannot be read.
    """
    core = Core(backend, limits)
    servicer = ModelServicer(core, metrics or Metrics(), Tracing.from_environment())
    server = Server(config, NAME, lambda target: model_grpc.add_ModelServiceServicer_to_server(servicer, target))
    await server.start()
    log.info("listening on %s:%d, loading the model", config.host, server.port)
    signalled = asyncio.ensure_future(server.run_until_signal())
    loading = asyncio.ensure_future(_load(backend))
    try:
        await asyncio.wait({signalled, loading}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            await server.stop()
            _leave()
        loading.result()
        core.ready()
        await server.set_serving()
        log.info("serving %s on %s:%d", core.info().model_name, config.host, server.port)
        await signalled
        await backend.close()
    finally:
        signalled.cancel()
        loading.cancel()
        await server.stop()


def _leave() -> NoReturn:
    """Ends the process, asked to stop while its model loads: there is nothing to drain.

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
