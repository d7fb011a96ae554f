"""Runs a server process: metrics port, event loop, one line for a user's mistake."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable

from lyncean.rpc import BindError, SecurityError, ServerConfig
from model_server.backend import Backend, LoadError
from model_server.metrics import Metrics
from model_server.serve import serve

log = logging.getLogger(__name__)
Make = Callable[[Metrics], Backend]
"""Builds a backend without loading it."""
_LINGER = 2.0
"""Seconds that threads may run on after the drain."""


def run(make: Make, config: ServerConfig, metrics_port: int | None) -> None:
    """Serves until a signal; a user's mistake ends in one line and exit code 2.

    Args:
        make: Builds the backend.
        config: Address, TLS, token and drain of the server.
        metrics_port: Port for Prometheus metrics; None for none.
    """
    logging.basicConfig(level=logging.INFO, format="model-server: %(message)s", stream=sys.stderr)
    metrics = Metrics()
    try:
        if metrics_port is not None:
            _listen(metrics, config.host, metrics_port)
        asyncio.run(serve(make(metrics), config, metrics=metrics))
        _exit_soon()
    except (LoadError, BindError, SecurityError) as error:
        print(f"Error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


def _exit_soon() -> None:
    """Ends the process even if a model's code still runs for an abandoned call: Python waits for its threads."""
    timer = threading.Timer(_LINGER, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _listen(metrics: Metrics, host: str, port: int) -> None:
    try:
        log.info("metrics on http://%s:%d/metrics", host, metrics.listen(host, port))
    except OSError as error:
        raise BindError(f"cannot listen on metrics port {host}:{port}: {error.strerror}") from error
