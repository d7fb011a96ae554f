"""Lifecycle of a server: bind, load, serve, drain."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from lyncean.rpc import ServerConfig
from lyncean.rpc.logs import log_to_stderr
from lyncean.rpc.serve import exit_soon
from lyncean.rpc.waits import in_thread
from tool_server.service import SERVICE, Servicer, server
from tool_server.settings import Limits
from tool_server.types import Toolset

log = logging.getLogger(__name__)


def run(
    make: Callable[[], Toolset], config: ServerConfig, limits: Limits, close: Callable[[], None] = lambda: None
) -> None:
    """Serves tools until SIGTERM or SIGINT, then drains.

    The port is bound first, so that health can say NOT_SERVING while the tools load.

    Args:
        make: Loads the tools, in a thread; may take minutes.
        config: Address, TLS, token and drain of the server.
        limits: Its bounds.
        close: Frees the tools' resources; called at the end, and if they cannot be loaded.

    Raises:
        UserError: The tools cannot be loaded, or one of their schemas cannot be used.
        BindError: The port cannot be bound.
        SecurityError: TLS files cannot be read.
    """
    log_to_stderr("tool-server: %(message)s")
    try:
        asyncio.run(_serve(make, config, limits))
    finally:
        close()
    exit_soon()


async def _serve(make: Callable[[], Toolset], config: ServerConfig, limits: Limits) -> None:
    servicer = Servicer(limits)
    serving = server(config, servicer)
    serving.catch_signals()
    port = await serving.start()
    signalled = asyncio.ensure_future(serving.run_until_signal())
    loading = asyncio.ensure_future(in_thread(make, "load"))
    try:
        await asyncio.wait({signalled, loading}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            logging.shutdown()
            os._exit(0)  # native code that loads weights does not survive the end of the interpreter
        servicer.ready(loading.result())
        await serving.set_serving()
        log.info("%s listens on %s:%d", SERVICE, config.host, port)
        await signalled
    finally:
        signalled.cancel()
        await serving.stop()
        await servicer.close()
