"""A server of tools, as a run calls it: over one channel, images by their hash, again as its statuses say."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from lyncean.errors import printable
from lyncean.media.pictures import damage
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, Credentials, call, dial, is_serving, parsing
from lyncean.rpc.channel import Method
from lyncean.rpc.errors import NOT_HELD
from lyncean.rpc.patience import Patience, patiently
from lyncean.rpc.security import TOOL_TOKEN_VARIABLE
from lyncean.rpc.waits import SAID_AFTER, OverdueError, Wait
from lyncean.tool.v1 import tool_pb2 as pb
from lyncean.vocabulary.tool_results import (
    MAX_FACTS,
    MAX_IMAGES,
    MAX_PARTS,
    MAX_TEXT,
    MAX_TOOLS,
    OTHER_REVISION,
)
from orchestrator.engine.check import bad_response
from orchestrator.engine.failures import describe, dialled
from orchestrator.engine.pool import REACH_SECONDS, Notify
from orchestrator.engine.resolve import Endpoint
from orchestrator.errors import ConfigError, IncompleteError
from orchestrator.samples import text_part
from orchestrator.tools.arguments import read_literal
from orchestrator.tools.types import MADE, Picture, RemoteCall, ToolOutput

_SERVICE = pb.DESCRIPTOR.services_by_name["ToolService"].full_name
_LIST_SECONDS = 10.0
_LEAST_SILENCE = 5.0
"""Seconds for which a server may always be silent before it lists its tools."""
_MOST_CALLS = 256
"""Most calls in flight at a server, even if it states more."""
_LONG_BYTES = 256 * 1024
"""Messages that take longer to make or to check than a thread costs."""
_MOST_REVISION = 1024
_Response = TypeVar("_Response", bound=Message)
_Made = TypeVar("_Made")


class ToolServer:
    """One server of `--tools`; made and used in the event loop of the run.

    Args:
        endpoint: Its address.
        credentials: How to dial.
        timeout: Deadline of one call, seconds.
        patience: Seconds for which a call that meets a full or absent server is made again.
        notify: Gets one line for people when the server is waited for.

    Attributes:
        listing: Its description, once `connect` has it.
        slots: As many as it makes calls at a time. Whoever calls holds one until the result is in the log: a process
            that is killed loses no more results than there are slots.
        wait: The wait for it, which people see.
    """

    def __init__(
        self, endpoint: Endpoint, credentials: Credentials, *, timeout: float, patience: float, notify: Notify
    ) -> None:
        self.endpoint = endpoint
        self.listing = pb.ListToolsResponse()
        self.wait = Wait(f"the tools at {endpoint}", max(patience, _LEAST_SILENCE))
        self._timeout, self._patience, self._notify = timeout, patience, notify
        self._metadata, self._dialled = credentials.metadata, dialled(credentials)
        self._channel = dial(str(endpoint), credentials)
        self._list = self._method("ListTools", pb.ListToolsResponse)
        self._call = self._method("CallTool", pb.CallToolResponse)
        self.slots = asyncio.Semaphore(1)
        self._held: OrderedDict[bytes, int] = OrderedDict()
        self._in_flight = self._held_bytes = 0

    def _method(self, name: str, kind: type[_Response]) -> Method[Awaitable[_Response | None]]:
        method: Method[Awaitable[_Response | None]] = self._channel.unary_unary(
            f"/{_SERVICE}/{name}", response_deserializer=parsing(kind.FromString)
        )
        return method

    async def connect(self) -> None:
        """Lists the server's tools; a server that is not ready is waited for as long as patience lasts.

        Raises:
            IncompleteError: If it is not there.
            ConfigError: If it refuses the credential, is another service, or breaks the contract.
        """
        patience = Patience(self._patience, REACH_SECONDS, self._channel)
        self.wait.begin()
        try:
            work = patiently(self._listed, patience, lambda error, _: self.wait.alive(describe(error)))
            listing = await self.wait.bound(work, self._notify)
        except (CallError, OverdueError) as error:
            raise self._refusal(error) from None
        finally:
            self.wait.end()
        self.listing = listing
        self.wait.limit = self._timeout  # a tool may need it
        self.slots = asyncio.Semaphore(min(listing.max_concurrency, _MOST_CALLS))

    async def _listed(self) -> pb.ListToolsResponse:
        request = pb.ListToolsRequest().SerializeToString()
        listing = await call(self._list, request, timeout=_LIST_SECONDS, metadata=self._metadata)
        if listing is None:
            raise bad_response("its bytes are not a ListToolsResponse")
        if why := wrong_listing(listing):
            raise ConfigError(f"the server of tools at {self.endpoint} breaks the contract: {why}")
        return listing

    async def make(
        self,
        remote: RemoteCall,
        images: Sequence[tuple[bytes, bytes]],
        history: Sequence[tuple[RemoteCall, int, bytes]],
    ) -> ToolOutput:
        """Makes a call.

        Args:
            remote: The call.
            images: Each image of the conversation with its SHA-256.
            history: Earlier calls of the conversation at this server, with the images then and the result's hash.

        Raises:
            CallError: It failed, and further tries are of no use.
            IncompleteError: The server is not there for longer than patience lasts.
            ConfigError: It refuses the credential, or has other tools than the run began with.
        """
        self._begin()
        try:
            return await patiently(
                lambda: self._attempt(remote, images, history),
                Patience(self._patience),
                lambda error, _: self.wait.alive(describe(error)),
            )
        except CallError as error:
            gone = error.code is grpc.StatusCode.UNAVAILABLE and not await is_serving(self._channel, _SERVICE)
            if gone or error.consequence.abort:
                raise self._refusal(error) from None
            raise
        finally:
            self._end()

    def says(self) -> str:
        """Returns the reason that a run waits for this server, as text; "" if it does not wait long."""
        return str(self.wait) if self.wait.seconds >= SAID_AFTER else ""

    def _begin(self) -> None:
        self._in_flight += 1
        if self._in_flight == 1:
            self.wait.begin()

    def _end(self) -> None:
        self._in_flight -= 1
        if self._in_flight:
            self.wait.begin()  # something has come
        else:
            self.wait.end()

    async def _attempt(
        self,
        remote: RemoteCall,
        images: Sequence[tuple[bytes, bytes]],
        history: Sequence[tuple[RemoteCall, int, bytes]],
    ) -> ToolOutput:
        try:
            response = await self._sent(remote, images, history, self._known(images))
        except CallError as error:
            if error.reason != NOT_HELD:
                raise
            for _, digest in images:
                self._held_bytes -= self._held.pop(digest, 0)
            response = await self._sent(remote, images, history, set())
        self._note(images)
        return await _beside(response.ByteSize(), lambda: self._output(remote, response))

    async def _sent(
        self,
        remote: RemoteCall,
        images: Sequence[tuple[bytes, bytes]],
        history: Sequence[tuple[RemoteCall, int, bytes]],
        held: set[bytes],
    ) -> pb.CallToolResponse:
        """Returns the response to a call in which the images that are held go by their hash alone."""
        size = sum(len(data) for data, digest in images if digest not in held)
        request = await _beside(size, lambda: self._request(remote, images, history, held))
        limit = self.listing.max_request_bytes
        response = await call(self._call, request, timeout=self._timeout, metadata=self._metadata, max_bytes=limit)
        if response is None:
            raise bad_response("its bytes are not a CallToolResponse")
        return response

    def _request(
        self,
        remote: RemoteCall,
        images: Sequence[tuple[bytes, bytes]],
        history: Sequence[tuple[RemoteCall, int, bytes]],
        held: set[bytes],
    ) -> bytes:
        request = pb.CallToolRequest(
            revision=self.listing.revision, name=remote.name, arguments=remote.arguments or "{}"
        )
        for data, digest in images:
            request.images.add(data=b"" if digest in held else data, sha256=digest if self._holds else b"")
        for earlier, count, result in history if self.listing.stateful else ():
            request.history.add(
                name=earlier.name, arguments=earlier.arguments or "{}", images=count, result_sha256=result
            )
        return request.SerializeToString()

    @property
    def _holds(self) -> bool:
        return self.listing.max_held_bytes > 0

    def _known(self, images: Sequence[tuple[bytes, bytes]]) -> set[bytes]:
        """Returns the hashes of those images that the server should hold."""
        return {digest for _, digest in images if digest in self._held}

    def _note(self, images: Sequence[tuple[bytes, bytes]]) -> None:
        """Notes that the server has images, those used last, as many as it holds."""
        for data, digest in images if self._holds else ():
            self._held_bytes += len(data) - self._held.pop(digest, 0)
            self._held[digest] = len(data)
        while self._held_bytes > self.listing.max_held_bytes:
            self._held_bytes -= self._held.popitem(last=False)[1]

    def _output(self, remote: RemoteCall, response: pb.CallToolResponse) -> ToolOutput:
        """Returns a response as an output.

        Raises:
            CallError: It breaks the contract, or other tools gave it.
        """
        if response.revision != self.listing.revision:
            detail = f"its tools have the revision {response.revision[:100]!r}, and the run began with another"
            raise CallError(grpc.StatusCode.FAILED_PRECONDITION, OTHER_REVISION, detail)
        if why := wrong_result(response):
            raise bad_response(why)
        content = tuple(
            Picture(part.image.data, source=MADE) if part.HasField("image") else text_part(part.text)
            for part in response.content
        )
        return ToolOutput(content, response.is_error, dict(response.facts), remote)

    def _refusal(self, error: CallError | OverdueError) -> ConfigError | IncompleteError:
        where = f"the server of tools at {self.endpoint}"
        if isinstance(error, OverdueError):
            return IncompleteError(f"{error}; every answer is safe: run the same command again to resume")
        if error.reason == OTHER_REVISION:
            return ConfigError(
                f"{where} has changed since the run began: {error}; serve the tools that it began with, or give --run "
                "another folder"
            )
        if error.consequence.abort:
            why = "its token is missing or wrong" if error.code is grpc.StatusCode.UNAUTHENTICATED else str(error)
            return ConfigError(
                f"{where} refuses the credential: {why}: set ${TOOL_TOKEN_VARIABLE}; it gets no other token of the run"
            )
        if error.code is grpc.StatusCode.UNIMPLEMENTED:
            return ConfigError(
                f"{self.endpoint} does not speak lyncean.tool.v1.ToolService: is that the tools' server?"
            )
        return IncompleteError(
            f"{where} does not answer ({describe(error)}); every answer is safe: start it, {self._dialled}, and run "
            "the same command again to resume"
        )

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close()


async def _beside(size: int, work: Callable[[], _Made]) -> _Made:
    """Returns the result of work on so many bytes, done in a thread if it would hold up the event loop."""
    return await asyncio.to_thread(work) if size > _LONG_BYTES else work()


def wrong_listing(listing: pb.ListToolsResponse) -> str:
    """Returns why a description breaks the contract; "" if it does not."""
    names = [tool.name for tool in listing.tools]
    if not 1 <= len(names) <= MAX_TOOLS or len(set(names)) < len(names):
        return f"it lists {len(names):,} tools, of which {len(set(names)):,} have names of their own"
    if not 0 < len(listing.revision.encode()) <= _MOST_REVISION:
        return f"its revision has {len(listing.revision.encode()):,} bytes"
    if not listing.max_concurrency:
        return "its max_concurrency is 0"
    return next(filter(None, map(_wrong_tool, listing.tools)), "")


def _wrong_tool(tool: model.Tool) -> str:
    where = f"its tool {printable(tool.name[:64])!r}"
    if (
        not 0 < len(tool.name) <= 64
        or not tool.name.replace("_", "a").replace("-", "a").isalnum()
        or not tool.name.isascii()
    ):
        return f"{where} has a name that is not 1 to 64 of a-z, A-Z, 0-9, _ and -"
    if len(tool.description.encode()) > 16_384 or len(tool.input_schema.encode()) > 65_536:
        return f"{where} has a description or a schema that is too long"
    try:
        schema = read_literal(tool.input_schema, "json") if tool.input_schema else {}
    except ValueError:
        schema = None
    return "" if isinstance(schema, dict) else f"{where} has a schema that is not a JSON object"


def wrong_result(response: pb.CallToolResponse) -> str:
    """Returns why a result breaks the contract; "" if it does not."""
    kinds = {part.WhichOneof("kind") for part in response.content}
    if not response.content or not kinds <= {"text", "image"}:
        return "its result holds nothing, or something beside texts and images"
    texts = sum(len(part.text.encode()) for part in response.content)
    images = [part.image.data for part in response.content if part.HasField("image")]
    for unit, count, most in (
        ("parts", len(response.content), MAX_PARTS),
        ("bytes of text", texts, MAX_TEXT),
        ("bytes of images", sum(map(len, images)), MAX_IMAGES),
        ("facts", len(response.facts), MAX_FACTS),
    ):
        if count > most:
            return f"its result has {count:,} {unit}, the limit is {most:,}"
    if not all(map(math.isfinite, response.facts.values())):
        return "a fact of its result is not finite"
    return next((f"an image of its result: {why}" for data in images if (why := damage(data))), "")
