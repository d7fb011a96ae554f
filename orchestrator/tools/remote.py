"""Tools of servers: their descriptions for the model, and the calls to be made there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lyncean.model.v1 import model_pb2 as model
from lyncean.vocabulary.tool_results import MAX_ARGUMENTS
from orchestrator.tools.arguments import tool_error
from orchestrator.tools.types import Picture, RemoteCall, ToolOutput


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """A tool of a server; see `orchestrator.tools.types.Tool`.

    Attributes:
        server: The server's index in `--tools`.
        about: Name, description and schema.
    """

    server: int
    about: model.Tool

    def describe(self) -> model.Tool:
        """Returns name, description and schema as the server has them."""
        return self.about

    def call(self, arguments: str, pictures: Sequence[Picture]) -> ToolOutput | RemoteCall:
        """Returns the call to be made: the server checks the arguments against the schema."""
        if len(arguments.encode()) > MAX_ARGUMENTS:
            return tool_error("The arguments of {name} are too long.", name=self.about.name)
        return RemoteCall(self.server, self.about.name, arguments)
