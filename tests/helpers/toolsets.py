"""A toolset that does what a function says, and a ToolService of it in the test's own event loop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import ServerConfig
from tool_server.service import Servicer, server
from tool_server.settings import Limits
from tool_server.types import Output, Session, Toolset

DEFAULT = Limits()


class Recorded:
    """A toolset of one tool that does what a function says; counts sessions and calls."""

    stateful = True
    revision = "1"

    def __init__(self, act: Callable[[Recorded, str], Output | None] = lambda tools, text: None) -> None:
        self.act = act
        self.calls: list[str] = []
        self.open_now = self.most_open = self.opened = 0
        self._lock = threading.Lock()

    def tools(self) -> Sequence[model.Tool]:
        return [model.Tool(name="say", input_schema='{"type": "object"}')]

    def open(self) -> Session:
        with self._lock:
            self.opened += 1
            self.open_now += 1
            self.most_open = max(self.most_open, self.open_now)
        return Conversation(self)


class Conversation:
    def __init__(self, tools: Recorded) -> None:
        self.tools, self.count = tools, 0

    def call(self, name: str, arguments: str, images: Sequence[bytes]) -> Output:
        self.tools.calls.append(arguments)
        self.count += 1
        return self.tools.act(self.tools, arguments) or Output((f"{self.count} {len(images)}",))

    def close(self) -> None:
        self.tools.open_now -= 1


@contextlib.asynccontextmanager
async def served(toolset: Toolset, limits: Limits = DEFAULT, config: ServerConfig | None = None) -> AsyncIterator[str]:
    """Yields the address of a service."""
    servicer = Servicer(limits)
    running = server(config or ServerConfig(grace=0), servicer)
    port = await running.start()
    servicer.ready(toolset)
    await running.set_serving()
    yield f"127.0.0.1:{port}"
    await running.stop()
    await servicer.close()
