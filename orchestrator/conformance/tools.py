"""Judges a server of tools against `lyncean.tool.v1`, from outside and in any language."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tomllib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import PLAIN, CallError, Credentials, call, dial, is_serving
from lyncean.rpc.errors import NOT_HELD
from lyncean.tool.v1 import tool_pb2 as pb, tool_pb2_grpc
from lyncean.vocabulary.tool_results import (
    MAX_ARGUMENTS,
    MAX_HISTORY,
    OTHER_REVISION,
    REPLAY_DIFFERS,
    result_sha256,
)
from orchestrator.conformance.check import Broken, Check, Result, applies, ended, wants
from orchestrator.conformance.checks_images import picture
from orchestrator.conformance.example import example
from orchestrator.engine.tool_server import wrong_listing, wrong_result

SERVICE = pb.DESCRIPTOR.services_by_name["ToolService"].full_name
CONTRACT = pb.DESCRIPTOR.package
_CALLS = 12
"""Calls that a check may make one after another, each within the timeout."""
_CONVERSATIONS = 64
_LATER = b"\xfa\x3e\x05later"  # field 1007, length-delimited
_FULL = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
_WRONG = ("{", "[]", "7", '"text"', '{"no such argument": NaN}', "[" * 50_000)
Run = Callable[["Server"], Coroutine[Any, Any, str | None]]


@dataclass(slots=True)
class Server:
    """A server of tools that answers.

    Attributes:
        channel: A channel to it.
        credentials: How it is dialled.
        timeout: Seconds that one call may take.
        listing: Its description, read before the first check.
    """

    channel: grpc.aio.Channel
    credentials: Credentials
    timeout: float
    listing: pb.ListToolsResponse

    async def list(self) -> pb.ListToolsResponse:
        """Returns its description."""
        method = tool_pb2_grpc.ToolServiceStub(self.channel).ListTools
        metadata = self.credentials.metadata
        listing: pb.ListToolsResponse
        listing = await call(method, pb.ListToolsRequest(), timeout=self.timeout, metadata=metadata)
        return listing

    async def call(
        self, request: pb.CallToolRequest, *, token: bool = True, timeout: float | None = None
    ) -> pb.CallToolResponse:
        """Makes a call, within the usual time or another."""
        method = tool_pb2_grpc.ToolServiceStub(self.channel).CallTool
        metadata = self.credentials.metadata if token else ()
        response: pb.CallToolResponse = await call(method, request, timeout=timeout or self.timeout, metadata=metadata)
        return response

    def request(self, tool: model.Tool | None = None, **fields: Any) -> pb.CallToolRequest:
        """Returns a call that fits a tool's schema as far as an example of it does; the first tool's by default."""
        tool = tool or self.listing.tools[0]
        try:
            arguments = json.dumps(example(json.loads(tool.input_schema or "{}")))
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise Broken(f"the schema of {tool.name[:64]} cannot be read: {error}") from error
        images = [model.Image(data=picture("red"))]
        values = {"revision": self.listing.revision, "name": tool.name, "arguments": arguments, "images": images}
        return pb.CallToolRequest(**(values | fields))

    async def refused(self, request: pb.CallToolRequest, code: grpc.StatusCode, reason: str, what: str) -> None:
        """Raises `Broken` unless a call ends with a status and, if one is given, a reason."""
        try:
            await self.call(request)
        except CallError as error:
            wants(error.code is code, f"{what} ends with {error.code.name} ({error.reason}), not {code.name}")
            wants(not reason or error.reason == reason, f"{what} has the reason {error.reason!r}, not {reason!r}")
        else:
            raise Broken(f"{what} is answered")


CHECKS = {
    name: Check(name, **entry)
    for name, entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
"""Every check by its name, in the order in which they are run."""
RUNS: dict[str, Run] = {}


def check(run: Run) -> Run:
    """Registers the code of the check that has the function's name."""
    RUNS[CHECKS[run.__name__].name] = run
    return run


async def judge_tools(
    address: str, credentials: Credentials = PLAIN, *, timeout: float = 60.0, only: Collection[str] = ()
) -> AsyncIterator[Result]:
    """Yields the result of each check, one after another; arguments and errors as of `judge`."""
    async with dial(address, credentials) as channel:
        server = Server(channel, credentials, timeout, pb.ListToolsResponse())
        server.listing = await server.list()
        for check in CHECKS.values():
            if not only or check.name in only:
                yield await ended(check, _run(check, server), _CALLS * timeout)


async def _run(check: Check, server: Server) -> str | None:
    applies(bool(server.listing.tools) or check.name == "lists_good_tools", "the server lists no tool")
    return await RUNS[check.name](server)


def _hash(response: pb.CallToolResponse) -> bytes:
    pieces = (part.image.data if part.HasField("image") else part.text for part in response.content)
    return result_sha256(pieces, response.is_error)


def _after(request: pb.CallToolRequest, *hashes: bytes) -> pb.CallToolRequest:
    """Returns a call after others like it, with the hashes of their results."""
    copy = pb.CallToolRequest.FromString(request.SerializeToString())
    for digest in hashes:
        images = len(request.images)
        copy.history.add(name=request.name, arguments=request.arguments, images=images, result_sha256=digest)
    return copy


@check
async def lists_good_tools(server: Server) -> str:
    """Names, schemas and limits are within the bounds."""
    why = wrong_listing(server.listing)
    wants(not why, why)
    return ", ".join(tool.name for tool in server.listing.tools)[:200]


@check
async def listing_is_stable(server: Server) -> None:
    """A second description is the first."""
    wants(await server.list() == server.listing, "a second ListTools has another answer")


@check
async def tools_health_has_both_names(server: Server) -> None:
    """Both names are SERVING."""
    for name in ("", SERVICE):
        wants(
            await is_serving(server.channel, name, timeout=server.timeout), f"health does not say SERVING of {name!r}"
        )


@check
async def calls_are_answered(server: Server) -> str:
    """A call of each tool has a result within the bounds."""
    wrong = 0
    for tool in server.listing.tools:
        response = await server.call(server.request(tool))
        why = wrong_result(response)
        wants(not why, f"{tool.name}: {why}")
        wrong += response.is_error
    return f"{wrong} of {len(server.listing.tools)} gave back an error for the model" if wrong else ""


@check
async def results_carry_the_revision(server: Server) -> None:
    """The response has the revision of the listing, also where the request names none."""
    for revision in (server.listing.revision, ""):
        current = (await server.call(server.request(revision=revision))).revision
        wants(current == server.listing.revision, f"a response has the revision {current[:100]!r}")


@check
async def wrong_arguments_are_results(server: Server) -> None:
    """Arguments that are not a JSON object are an error for the model to read."""
    for text in _WRONG:
        response = await server.call(server.request(arguments=text))
        wants(response.is_error, f"the arguments {text[:40]} have a result that is not an error")
        wants(any(part.text for part in response.content), f"the error for {text[:40]} has no text")


@check
async def unknown_tools_are_refused(server: Server) -> None:
    """A name that is not listed is refused, in the history too."""
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    await server.refused(server.request(name="no-such-tool"), invalid, "unknown_tool", "a call of an unknown tool")
    earlier = server.request()
    earlier.history.add(name="no-such-tool", arguments="{}", result_sha256=bytes(32))
    if server.listing.stateful:
        await server.refused(earlier, invalid, "unknown_tool", "an earlier call of an unknown tool")


@check
async def bounds_are_kept(server: Server) -> None:
    """Arguments and histories that are too long are refused, and hashes of another length."""
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    await server.refused(
        server.request(arguments=" " * (MAX_ARGUMENTS + 1)), invalid, "", "a call with 1 MiB and a byte"
    )
    long = _after(server.request(), *[bytes(32)] * (MAX_HISTORY + 1))
    await server.refused(long, invalid, "", f"a history of {MAX_HISTORY + 1:,} calls")
    await server.refused(_after(server.request(), b"short"), invalid, "", "a hash of 5 bytes")


@check
async def other_revisions_are_refused(server: Server) -> None:
    """A request for tools of another revision is refused."""
    other = server.request(revision=f"{server.listing.revision[:100]} and another")
    await server.refused(other, grpc.StatusCode.FAILED_PRECONDITION, OTHER_REVISION, "another revision")


@check
async def conversations_are_apart(server: Server) -> None:
    """The first call of a conversation has the same result after any other conversation."""
    for tool in server.listing.tools:
        first = await server.call(server.request(tool))
        second = await server.call(server.request(tool))
        wants(_hash(first) == _hash(second), f"{tool.name}: the first call of two conversations has two results")


@check
async def sessions_are_made_anew(server: Server) -> str:
    """A second call has the same result in a warm session and in one that is made anew."""
    replayed = 0
    for tool in server.listing.tools:
        # Another image than elsewhere: no other check has left a warm session of this history.
        request = server.request(tool, images=[model.Image(data=picture("blue"))])
        first = await server.call(request)
        later = _after(request, _hash(first))
        results = [await server.call(later) for _ in range(3)]
        wants(len(set(map(_hash, results))) == 1, f"{tool.name}: a second call that is made again has another result")
        replayed += sum(result.replayed for result in results)
    return f"{replayed} earlier calls were made again" if replayed else ""


@check
async def other_results_abort(server: Server) -> None:
    """A history with a result that the tool does not give is noticed."""
    applies(server.listing.stateful, "the tools have no state")
    other = _after(server.request(), hashlib.sha256(b"no such result").digest())
    await server.refused(other, grpc.StatusCode.ABORTED, REPLAY_DIFFERS, "a history with another result")


@check
async def images_go_by_their_hash(server: Server) -> None:
    """An image that was sent once is known by its hash; others are asked for."""
    applies(server.listing.max_held_bytes > 0, "max_held_bytes is 0")
    data = picture("green")
    digest = hashlib.sha256(data).digest()
    absent = server.request(images=[model.Image(sha256=hashlib.sha256(b"nothing").digest())])
    await server.refused(absent, grpc.StatusCode.NOT_FOUND, NOT_HELD, "an image that was never sent")
    wrong = server.request(images=[model.Image(data=data, sha256=bytes(32))])
    await server.refused(wrong, grpc.StatusCode.INVALID_ARGUMENT, "hash_mismatch", "a hash of other bytes")
    complete = await server.call(server.request(images=[model.Image(data=data, sha256=digest)]))
    alone = await server.call(server.request(images=[model.Image(sha256=digest)]))
    wants(_hash(complete) == _hash(alone), "the same image by its hash has another result")


@check
async def many_conversations_at_once(server: Server) -> str:
    """Conversations at once have the results of each by itself; a full queue is a status of its own."""
    request = server.request()
    first = _hash(await server.call(request))
    second = _hash(await server.call(_after(request, first)))

    async def converse() -> bool:
        late = _CALLS * server.timeout  # a call waits for those before it, each of which may start a process
        try:
            requests = (request, _after(request, first))
            hashes = [_hash(await server.call(one, timeout=late)) for one in requests]
        except CallError as error:
            wants(error.code in _FULL, f"one of {_CONVERSATIONS} conversations at once ended with {error.code.name}")
            return False
        wants(hashes == [first, second], f"{_CONVERSATIONS} conversations at once have other results than one alone")
        return True

    ends: Sequence[bool | BaseException] = await asyncio.gather(
        *(converse() for _ in range(_CONVERSATIONS)), return_exceptions=True
    )
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    wants(any(ends), f"all of {_CONVERSATIONS} conversations at once were refused")
    return f"{ends.count(False)} of {_CONVERSATIONS} were sent back" if not all(ends) else ""


@check
async def later_fields_are_ignored(server: Server) -> None:
    """Fields that a later contract may have change nothing."""
    request = server.request()
    later = pb.CallToolRequest.FromString(request.SerializeToString() + _LATER)
    wants(_hash(await server.call(later)) == _hash(await server.call(request)), "an unknown field changes the result")


@check
async def tools_token_is_demanded(server: Server) -> None:
    """Without the token nothing is answered."""
    applies(bool(server.credentials.token), "no token is given")
    try:
        await server.call(server.request(), token=False)
    except CallError as error:
        wants(error.code is grpc.StatusCode.UNAUTHENTICATED, f"a call without the token ends with {error.code.name}")
    else:
        raise Broken("a call without the token is answered")
