"""The real HTTP server of the OpenAI-compatible front, in the test's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from lyncean.model.v1 import model_pb2_grpc as model_grpc
from lyncean.rpc import PLAIN, ServerConfig
from lyncean_openai_front.app import Front
from lyncean_openai_front.serve import settings


@asynccontextmanager
async def front(channel: Any, config: ServerConfig | None = None, port: int = 0) -> AsyncIterator[int]:
    """Runs the real HTTP server; gives its port."""
    config = config or ServerConfig(grace=1)
    server = uvicorn.Server(settings(Front(model_grpc.ModelServiceStub(channel), PLAIN, 60, config.token), config))
    listening = socket.create_server(("127.0.0.1", port))
    running = asyncio.ensure_future(server._serve([listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await running
