"""The tools of an MCP server as a toolset: one session with the server for each conversation."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from lyncean.errors import UserError, printable
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, OtherState, StatusError
from lyncean.vocabulary import OTHER_REVISION
from lyncean_mcp.connection import Connection, Loop, Transport
from lyncean_mcp.images import ImageArguments
from lyncean_mcp.results import output_of
from tool_server import Output

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_DESCRIPTION = 16_384
_MAX_SCHEMA = 65_536


class McpTools:
    """The toolset; see `tool_server.types.Toolset`.

    Args:
        transport: Opens the streams of a session.
        images: Arguments that are images.
        stateful: Whether results may depend on earlier calls.
        seconds: Timeout of a call, in seconds.

    Raises:
        UserError: The server cannot be used, or its tools do not have the arguments that are images.
    """

    def __init__(self, transport: Transport, images: ImageArguments, stateful: bool, seconds: float) -> None:
        self.stateful, self.images = stateful, images
        self._loop, self._transport, self._seconds = Loop(), transport, seconds
        try:
            first = self._connection()
            try:
                listed, server = first.tools(), first.server
            finally:
                first.close()
        except (StatusError, MCPError) as error:
            raise UserError(str(error)) from error
        schemas = {tool.name: tool.input_schema for tool in listed}
        images.check(schemas)
        self._tools = [_tool(tool, images.schema(tool.name, tool.input_schema)) for tool in listed]
        if not self._tools:
            raise UserError("the MCP server has no tools")
        self.listed = _hash(listed)
        self.revision = _revision(server, self.listed, images, stateful)
        log.info("MCP server %s: %s", printable(server), ", ".join(tool.name for tool in self._tools))
        if stateful and (names := [tool.name for tool in listed if not _only_reads(tool)]):
            log.info(
                "a lost session is made anew by its earlier calls, also of tools that change things: %s",
                ", ".join(names),
            )

    def tools(self) -> Sequence[model.Tool]:
        """Returns the tools."""
        return self._tools

    def open(self) -> McpSession:
        """Returns a new session."""
        return McpSession(self, self._connection())

    def _connection(self) -> Connection:
        return Connection(self._loop, self._transport, self._seconds)


class McpSession:
    """A conversation's session; see `tool_server.types.Session`.

    Args:
        toolset: Its toolset.
        connection: Its own connection.
    """

    def __init__(self, toolset: McpTools, connection: Connection) -> None:
        self._toolset, self._connection = toolset, connection

    def call(self, name: str, arguments: str, images: Sequence[bytes]) -> Output:
        """Makes a call if the server still has the tools that the run began with.

        Raises:
            StatusError: The tools changed, or the call failed.
        """
        try:
            filled = self._toolset.images.filled(name, json.loads(arguments), images)
        except ValueError as error:
            return Output((str(error),), is_error=True)
        try:
            if _hash(self._connection.tools()) != self._toolset.listed:
                message = "the MCP server lists other tools than at the start: start the tool server again"
                raise OtherState(OTHER_REVISION, message)
            result = self._connection.call(name, filled)
        except MCPError as error:
            if error.code == INVALID_PARAMS:
                return Output((error.message,), is_error=True)
            raise InternalFailure("tool_failed", f"the MCP server could not call {name}: {error.message}") from error
        return output_of(result)

    def close(self) -> None:
        """Ends the session."""
        self._connection.close()


def _tool(tool: Any, schema: dict[str, Any]) -> model.Tool:
    text, description = json.dumps(schema, ensure_ascii=False), tool.description or ""
    if not _NAME.fullmatch(tool.name):
        raise UserError(
            f"the MCP server's tool {tool.name!r} has a name that models cannot be told: it takes 1 to 64 of a-z, A-Z, "
            "0-9, _ and -"
        )
    for part, value, limit in (("description", description, _MAX_DESCRIPTION), ("schema", text, _MAX_SCHEMA)):
        if len(value.encode()) > limit:
            raise UserError(f"the {part} of the MCP server's tool {tool.name} is longer than {limit:,} bytes")
    return model.Tool(name=tool.name, description=description, input_schema=text)


def _only_reads(tool: Any) -> bool:
    return bool(tool.annotations and tool.annotations.read_only_hint)


def _hash(tools: Sequence[Any]) -> str:
    """Returns a hash of the server's description of its tools, without icons and metadata."""
    descriptions = [
        tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"icons", "meta"}) for tool in tools
    ]
    return hashlib.sha256(json.dumps(descriptions, sort_keys=True).encode()).hexdigest()


def _revision(server: str, listed: str, images: ImageArguments, stateful: bool) -> str:
    parts = [server, listed, str(sorted(images.forms.items())), str(stateful)]
    digest = hashlib.sha256("\n".join(parts).encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
