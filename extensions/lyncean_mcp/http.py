"""An MCP server at a URL, with bounded responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from lyncean_mcp.stdio import MAX_MESSAGE

_EVENTS = "text/event-stream"


class _Bounded(httpx2.AsyncBaseTransport):
    """Rejects responses above the limit of a message, and compressed ones, which may expand to any size."""

    def __init__(self) -> None:
        self._under = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._under.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("the MCP server compresses its responses, although it was asked not to")
        if not response.headers.get("content-type", "").startswith(_EVENTS):  # each event has its own bound
            response.stream = _BoundedStream(response.stream)
        return response

    async def aclose(self) -> None:
        await self._under.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, under: Any) -> None:
        self._under = under

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for block in self._under:
            size += len(block)
            if size > MAX_MESSAGE:
                raise httpx2.RemoteProtocolError(f"the MCP server sent a message of more than {MAX_MESSAGE:,} bytes")
            yield block

    async def aclose(self) -> None:
        await self._under.aclose()


@asynccontextmanager
async def remote(url: str, seconds: float) -> AsyncIterator[tuple[Any, Any]]:
    """Yields the message streams of a server at a URL, like a transport of the package `mcp`.

    Args:
        url: Address of its Streamable HTTP endpoint.
        seconds: Timeout of a request, in seconds.
    """
    client = httpx2.AsyncClient(
        transport=_Bounded(), timeout=seconds, headers={"accept-encoding": "identity"}, trust_env=False
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(client)
        streams: AbstractAsyncContextManager[Any] = streamable_http_client(
            url, http_client=client, max_sse_event_size=MAX_MESSAGE
        )
        yield await stack.enter_async_context(streams)
