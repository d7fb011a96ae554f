"""ToolService over a `Toolset`: bounds, images by hash, threads and errors."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lyncean.media.held import HeldMedia
from lyncean.rpc import MAX_MESSAGE_BYTES, InvalidRequest, Overloaded, Unavailable
from lyncean.rpc.errors import OtherState
from lyncean.tool.v1 import tool_pb2 as pb, tool_pb2_grpc
from lyncean.vocabulary.tool_results import MAX_ARGUMENTS, MAX_HISTORY, OTHER_REVISION
from tool_server.results import response
from tool_server.sessions import CallRecord, Sessions, Work
from tool_server.settings import Limits
from tool_server.types import Output, Toolset

if TYPE_CHECKING:
    import grpc

    from lyncean.rpc import Server, ServerConfig

SERVICE = pb.DESCRIPTOR.services_by_name["ToolService"].full_name
MAX_HELD_BYTES = 256 * 1024 * 1024
"""Bytes of images held for requests that send only hashes."""
MAX_WAITING_BYTES = 512 * 1024 * 1024
"""Maximum bytes of images of all requests in the server; further requests are refused and wait at their sender."""
_DIGEST_BYTES = 32
_SWEEP_SECONDS = 60.0


class Servicer(tool_pb2_grpc.ToolServiceServicer):
    """Answers the two calls of ToolService; created within the running event loop.

    Args:
        limits: The server's bounds.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="tool")
        self._held = HeldMedia(MAX_HELD_BYTES, MAX_MESSAGE_BYTES)
        self._open = self._bytes = 0
        self._listing: pb.ListToolsResponse | None = None
        self._sessions: Sessions | None = None
        self._sweeping: asyncio.Task[None] | None = None

    def ready(self, toolset: Toolset) -> None:
        """Starts answering calls.

        Raises:
            UserError: If a tool's schema cannot be used.
        """
        from importlib.metadata import version

        self._sessions = Sessions(toolset, max(self._limits.sessions, self._limits.concurrency))
        self._listing = pb.ListToolsResponse(
            tools=toolset.tools(),
            revision=toolset.revision,
            stateful=toolset.stateful,
            max_concurrency=self._limits.concurrency,
            max_request_bytes=MAX_MESSAGE_BYTES,
            max_held_bytes=self._held.capacity,
            server_version=f"lyncean {version('lyncean')}",
        )
        self._sweeping = asyncio.create_task(self._sweep(self._sessions))

    async def close(self) -> None:
        """Closes all sessions."""
        if self._sweeping:
            self._sweeping.cancel()
        if self._sessions:
            await asyncio.to_thread(self._sessions.close_idle, 0)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def ListTools(self, request: pb.ListToolsRequest, context: Any) -> pb.ListToolsResponse:  # noqa: N802
        """Lists the tools, which a run asks for first."""
        return self._loaded()[0]

    async def CallTool(self, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:  # noqa: N802
        """Makes one call, in a thread."""
        listing, sessions = self._loaded()
        _check(request, listing)
        async with self._admitted(request):
            await self._held.fill([image for image in request.images if image.sha256])
            if not all(image.data for image in request.images):
                raise InvalidRequest("bad_image", "an image has neither data nor sha256")
            abandoned = threading.Event()
            try:
                loop = asyncio.get_running_loop()
                output, replayed = await loop.run_in_executor(self._threads, _called, sessions, request, abandoned)
            except asyncio.CancelledError:
                abandoned.set()
                raise
        return response(output, listing.revision, replayed)

    def _loaded(self) -> tuple[pb.ListToolsResponse, Sessions]:
        if self._listing is None or self._sessions is None:
            raise Unavailable("not_loaded", "the tools are not loaded yet")
        return self._listing, self._sessions

    @contextlib.asynccontextmanager
    async def _admitted(self, request: pb.CallToolRequest) -> AsyncIterator[None]:
        """Counts a request while it is in the server.

        Raises:
            Overloaded: There are too many requests, or too many bytes.
        """
        size = request.ByteSize()
        limit = self._limits.concurrency + self._limits.queue
        if self._open >= limit or (self._open and self._bytes + size > MAX_WAITING_BYTES):
            message = f"{self._open:,} calls with {self._bytes:,} bytes are in the server: send it later"
            raise Overloaded("queue_full", message)
        self._open, self._bytes = self._open + 1, self._bytes + size
        try:
            yield
        finally:
            self._open, self._bytes = self._open - 1, self._bytes - size

    @staticmethod
    async def _sweep(sessions: Sessions) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await asyncio.to_thread(sessions.close_idle)


def _check(request: pb.CallToolRequest, listing: pb.ListToolsResponse) -> None:
    """Makes sure that a request is within the contract.

    Raises:
        InvalidRequest: It breaks the contract.
        OtherState: It names another revision of the tools.
    """
    if request.revision and request.revision != listing.revision:
        raise OtherState(
            OTHER_REVISION,
            f"the tools have the revision {listing.revision[:100]}, and the run began with {request.revision[:100]}",
        )
    names = {tool.name for tool in listing.tools}
    if len(request.history) > MAX_HISTORY:
        number = f"{len(request.history):,}"
        raise InvalidRequest("history_too_long", f"{number} earlier calls, the limit is {MAX_HISTORY:,}")
    images = 0
    for call in request.history:
        _check_call(call.name, call.arguments, names)
        if not images <= call.images <= len(request.images):
            raise InvalidRequest("bad_history", f"an earlier call had {call.images:,} images, a later one has fewer")
        if len(call.result_sha256) != _DIGEST_BYTES:
            raise InvalidRequest("bad_history", f"the hash of an earlier result does not have {_DIGEST_BYTES} bytes")
        images = call.images
    _check_call(request.name, request.arguments, names)


def _check_call(name: str, arguments: str, names: set[str]) -> None:
    if name not in names:
        raise InvalidRequest("unknown_tool", f"there is no tool {name[:64]!r} here")
    if len(arguments.encode()) > MAX_ARGUMENTS:
        raise InvalidRequest("arguments_too_long", f"the arguments have more than {MAX_ARGUMENTS:,} bytes")


def _called(sessions: Sessions, request: pb.CallToolRequest, abandoned: threading.Event) -> tuple[Output, int]:
    """Makes a call; runs in a thread, where images without a hash get theirs."""
    images = [image.data for image in request.images]
    work = Work(
        call=CallRecord(request.name, request.arguments, len(images)),
        images=images,
        digests=[image.sha256 or hashlib.sha256(image.data).digest() for image in request.images],
        history=[
            CallRecord(earlier.name, earlier.arguments, earlier.images, earlier.result_sha256)
            for earlier in request.history
        ],
        abandoned=abandoned,
    )
    return sessions.call(work)


def server(config: ServerConfig, servicer: Servicer) -> Server:
    """Returns the server of a servicer, not yet started."""
    from lyncean.rpc import Server

    def add(to: grpc.aio.Server) -> None:
        tool_pb2_grpc.add_ToolServiceServicer_to_server(servicer, to)

    return Server(config, SERVICE, add)
