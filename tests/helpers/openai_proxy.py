"""The model server before an OpenAI-compatible endpoint, as a process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers.engine_cluster import Server
from helpers.openai_endpoint import Endpoint


@contextmanager
def proxied(endpoint: Endpoint, folder: Path, *options: str) -> Iterator[Server]:
    """Serves an endpoint's model "m" over gRPC."""
    command = [sys.executable, "-m", "model_server", "serve", "--backend", "openai", "--model", "m"]
    server = Server(folder / "proxy", [*command, "--base-url", endpoint.url, *options]).start()
    try:
        yield server
    finally:
        server.kill()
