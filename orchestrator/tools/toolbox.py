"""The tools and the protocol of a run, chosen by name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lyncean.tool.v1 import tool_pb2
from orchestrator.errors import ConfigError
from orchestrator.tools import builtin, spec
from orchestrator.tools.code import CodeProtocol
from orchestrator.tools.native import Native
from orchestrator.tools.remote import RemoteTool
from orchestrator.tools.text import TextProtocol
from orchestrator.tools.types import Protocol, Tool
from orchestrator.tools.zoom import Zoom

NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tools of a run, and the form of their calls.

    Attributes:
        protocol: The form of calls and results.
        tools: The tools.
        sha256: Hash of all that the results of calls depend on: tools, protocol, and the code of both.
    """

    protocol: Protocol
    tools: tuple[Tool, ...]
    sha256: str


def toolbox(
    names: Sequence[str], protocol: str = NATIVE, servers: Sequence[tool_pb2.ListToolsResponse] = ()
) -> Toolbox:
    """Returns the tools of a run.

    Args:
        names: Names of built-in tools.
        protocol: "native", for the contract's own tools, or a text protocol, which has `zoom` alone, or runs code.
        servers: Descriptions of servers of tools, in their order in `--tools`.

    Raises:
        ConfigError: The tool or protocol does not exist, the protocol does not have the tool, or two tools have a name.
    """
    if unknown := [name for name in names if name not in builtin.TOOLS]:
        raise ConfigError(f"--tools: there is no tool {unknown[0]!r}; there are {', '.join(builtin.TOOLS)}")
    if protocol == NATIVE:
        native: list[Tool] = [*(builtin.TOOLS[name] for name in names), *_remote(servers)]
        _check_names([tool.describe().name for tool in native])
        return Toolbox(Native(), tuple(native), _hash(*names))
    if protocol not in spec.names():
        raise ConfigError(f"--protocol: there is no {protocol!r}; there are {', '.join((NATIVE, *spec.names()))}")
    text_spec = spec.load(protocol)
    if text_spec.code:
        return Toolbox(
            CodeProtocol(text_spec), _running_code(names, text_spec, servers), _hash(protocol, spec.sha256(protocol))
        )
    if list(names) != ["zoom"]:
        raise ConfigError(f"--protocol {protocol} has the tool zoom alone: give --tools zoom, or --protocol {NATIVE}")
    return Toolbox(TextProtocol(text_spec), (Zoom(text_spec),), _hash(protocol, spec.sha256(protocol)))


def _remote(servers: Sequence[tool_pb2.ListToolsResponse]) -> Iterator[RemoteTool]:
    for number, server in enumerate(servers):
        yield from (RemoteTool(number, about) for about in server.tools)


def _running_code(
    names: Sequence[str], text_spec: spec.Spec, servers: Sequence[tool_pb2.ListToolsResponse]
) -> tuple[Tool, ...]:
    """Returns the tool that runs a protocol's code; none before a run has asked its servers."""
    assert text_spec.code is not None
    tools = tuple(_remote(servers))
    if names or (tools and text_spec.code.tool not in [tool.describe().name for tool in tools]):
        raise ConfigError(
            f"--protocol {text_spec.name} has the tool {text_spec.code.tool} of a server alone: start "
            "`tool-server sandbox`, and give --tools grpc:HOST:PORT"
        )
    return tools


def _check_names(names: Sequence[str]) -> None:
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"--tools: two tools are named {twice[0]!r}: leave one of them out")


def _hash(*texts: str) -> str:
    """Returns the hash of texts and of this package's code."""
    digest = hashlib.sha256("\n".join(texts).encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
