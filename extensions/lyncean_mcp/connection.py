"""One session with an MCP server, called from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from mcp import Client
from mcp.shared.exceptions import MCPError

from lyncean.rpc import Unavailable
from lyncean.vocabulary import MAX_TOOLS

T = TypeVar("T")

Transport = Callable[[], AbstractAsyncContextManager[tuple[Any, Any]]]
"""Opens the message streams of a new session."""
_CLOSING = 10.0
"""Timeout for closing a session, in seconds."""


class Loop:
    """An event loop in its own thread, shared by all sessions."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True).start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts work and returns its future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


class Connection:
    """A session with its own server.

    Args:
        loop: The loop that runs it.
        transport: Opens its streams.
        seconds: Timeout for the answer to a message, in seconds.

    Raises:
        Unavailable: The server cannot be started or reached, or does not speak the protocol.
    """

    def __init__(self, loop: Loop, transport: Transport, seconds: float) -> None:
        self._loop, self._seconds = loop, seconds
        self._ready: Future[Client] = Future()
        self._closing = asyncio.Event()
        self._life = loop.start(self._live(transport))
        try:
            self._client = self._ready.result()
        except Exception as error:
            raise Unavailable("mcp_unreachable", f"the MCP server cannot be used: {words_of(error)}") from error

    async def _live(self, transport: Transport) -> None:
        """Opens the session and closes it, since one task must do both."""
        client = Client(transport(), read_timeout_seconds=self._seconds, cache=None)
        try:
            async with client:
                self._ready.set_result(client)
                await self._closing.wait()
        except Exception as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    def tools(self) -> list[Any]:
        """Returns the tools that the server currently lists.

        Raises:
            Unavailable: It does not answer, or lists too many.
        """
        return self._run(self._tools())

    async def _tools(self) -> list[Any]:
        tools: list[Any] = []
        cursor = None
        while True:
            page = await self._client.list_tools(cursor=cursor)
            tools += page.tools
            if len(tools) > MAX_TOOLS:
                raise ValueError(f"it lists more than {MAX_TOOLS} tools")
            if not page.next_cursor or not page.tools:
                return tools
            cursor = page.next_cursor

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Calls a tool and returns its result, of a type of the package `mcp`.

        Raises:
            MCPError: The server refuses the call.
            Unavailable: It does not answer.
        """
        return self._run(self._client.call_tool(name, arguments))

    @property
    def server(self) -> str:
        """Name and version that the server reports."""
        about = self._client.server_info
        return f"{about.name} {about.version}" if about else ""

    def close(self) -> None:
        """Ends the session, and the server if it was started for it."""
        self._loop.start(self._set())
        with contextlib.suppress(Exception):
            self._life.result(_CLOSING)

    async def _set(self) -> None:
        self._closing.set()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.start(work).result()
        except MCPError:
            raise
        except Exception as error:
            raise Unavailable("mcp_failed", f"the MCP server failed: {words_of(error)}") from error


def words_of(error: BaseException) -> str:
    """Returns an error in one line; for an exception group its first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return (str(error).splitlines() or [""])[0] or type(error).__name__
