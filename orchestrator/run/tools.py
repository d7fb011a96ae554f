"""`--tools` and the options beside it: what the models of a run may call while they answer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.tool.v1 import tool_pb2
from lyncean.vocabulary.facts import CALLS
from orchestrator.engine.pool import Notify
from orchestrator.engine.resolve import Endpoint, parse_endpoints
from orchestrator.engine.trajectory import Play
from orchestrator.errors import ConfigError
from orchestrator.run.arguments import words_of
from orchestrator.run.request import NATIVE_TOOLS
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.tools_used import FIELD, SERVERS
from orchestrator.samples import metric

if TYPE_CHECKING:
    from orchestrator.run.request import RunRequest

NONE = "none"
SERVER = "grpc:"
"""Begins the name of a server of tools in `--tools`; its address follows."""


def play_of(request: RunRequest, called: Mapping[str, str]) -> Play | None:
    """Returns the tools of a run, None where it has none.

    Args:
        request: The run.
        called: Task -> the tool that it calls itself, "" where models call tools.

    Raises:
        ConfigError: A tool or protocol is unknown, or another option contradicts them.
    """
    names = list(dict.fromkeys(words_of(request.tools)))
    endpoints_of(names)
    for task, tool in called.items():
        if tool and (names in ([], [NONE]) or not all(called.values()) or request.protocol != NATIVE_TOOLS):
            raise ConfigError(
                f"{task} calls the tool {tool} itself: give --tools grpc:H:P, a tool server that has it, "
                "leave out --protocol, and run the other tasks by themselves"
            )
    if names in ([], [NONE]):
        options = {
            "--protocol": request.protocol != NATIVE_TOOLS,
            "--max-calls": request.max_calls is not None,
            "--max-answer-tokens": request.max_answer_tokens is not None,
        }
        if wrong := [flag for flag, is_given in options.items() if is_given]:
            raise ConfigError(f"{wrong[0]} is for a run with tools: give --tools zoom, or leave it out")
        return None
    if NONE in names:
        raise ConfigError("--tools none takes all tools away: leave it out, or the others")
    contradictions = {
        "--method likelihood": request.method != "generate" and not any(called.values()),
        f"--answer {request.answer}": request.answer != "free",
        "--finish-cut": request.finish_cut is not None,
    }
    if wrong := [flag for flag, is_given in contradictions.items() if is_given]:
        raise ConfigError(f"{wrong[0]} is not for a run with tools, whose answers are in words: leave out one of them")
    from orchestrator.tools.toolbox import toolbox

    box = toolbox([name for name in names if not name.startswith(SERVER)], request.protocol)
    return Play(
        box, request.max_calls or box.protocol.max_calls, tuple(names), max_tokens=request.max_answer_tokens or 0
    )


def endpoints_of(names: Sequence[str]) -> list[Endpoint]:
    """Returns the servers of tools among names of `--tools`.

    Raises:
        ConfigError: One is not `grpc:H:P`.
    """
    return [one for name in names if name.startswith(SERVER) for one in parse_endpoints([name.removeprefix(SERVER)])]


def identity_of(play: Play | None) -> dict[str, Any]:
    """Returns what tools add to the identity of a run: nothing without any."""
    if play is None:
        return {}
    box = play.box
    record = {
        "names": [name for name in play.names if not name.startswith(SERVER)],
        "protocol": box.protocol.name,
        "max_calls": play.max_calls,
        **({"max_answer_tokens": play.max_tokens} if play.max_tokens else {}),
        "sha256": box.sha256,
        **({SERVERS: [_server_json(server.listing) for server in play.servers]} if play.servers else {}),
    }
    return {FIELD: record}


def _server_json(listing: tool_pb2.ListToolsResponse) -> dict[str, Any]:
    fields = ("name", "description", "input_schema")
    tools = [{name: getattr(tool, name) for name in fields if getattr(tool, name)} for tool in listing.tools]
    return {"revision": listing.revision, "stateful": listing.stateful, "tools": tools}


@contextlib.asynccontextmanager
async def connected(play: Play, request: RunRequest, notify: Notify) -> AsyncIterator[Play]:
    """Connects to the servers of tools of a run; yields all its tools. Closes the connections on exit.

    Raises:
        IncompleteError: If one is not there.
        ConfigError: If one refuses the credential or breaks the contract, or two tools have a name.
        SecurityError: The token cannot be read.
    """
    from lyncean.rpc.security import TOOL_TOKEN_VARIABLE, read_token
    from orchestrator.engine.tool_server import ToolServer
    from orchestrator.tools.toolbox import toolbox

    # Tools may be code of others, and reach the model servers and the scorer, whose token is another one.
    credentials = replace(request.credentials, token=read_token(None, TOOL_TOKEN_VARIABLE))
    async with contextlib.AsyncExitStack() as stack:
        servers = []
        for endpoint in endpoints_of(play.names):
            server = ToolServer(
                endpoint, credentials, timeout=request.timeout, patience=request.patience, notify=notify
            )
            stack.push_async_callback(server.close)
            await server.connect()
            servers.append(server)
        local = [name for name in play.names if not name.startswith(SERVER)]
        box = toolbox(local, request.protocol, [server.listing for server in servers])
        yield replace(play, box=box, servers=tuple(servers))


async def described(play: Play, request: RunRequest, notify: Notify) -> Play:
    """Returns all tools of a run, without a connection to their servers; raises as `connected`."""
    async with connected(play, request, notify) as equipped:
        return equipped


def check_unchanged(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Makes sure that servers of tools have the tools that a run began with.

    Args:
        path: The run folder.
        old: Its identity.
        new: That of this command.

    Raises:
        ManifestError: They have not.
    """
    before, now = ((manifest.get(FIELD) or {}).get(SERVERS) or [] for manifest in (old, new))
    if before == now or len(before) != len(now):
        return
    was, has = next((was, has) for was, has in zip(before, now, strict=True) if was != has)
    change = "other names or schemas"
    if was["revision"] != has["revision"]:
        change = f"the revision {has['revision'][:100]!r}, and the run began with {was['revision'][:100]!r}"
    raise ManifestError(
        f"{path}: the tools of a server have changed: they have {change}; serve those that the run began with, or give "
        "--run another folder"
    )


def with_facts(specs: Sequence[scorer.MetricSpec]) -> list[scorer.MetricSpec]:
    """Returns the metrics of a task with tools: means of scores by the number of calls, too, and the mean of that."""
    lines = []
    for spec in specs:
        sliced = scorer.MetricSpec.FromString(spec.SerializeToString())
        if spec.metric in ("accuracy", "mean"):
            sliced.by.add(labels=[CALLS])
        lines.append(sliced)
    taken = {spec.name for spec in specs}
    return lines if CALLS in taken else [*lines, metric(CALLS, "fact", params={"fact": CALLS})]


def needs(play: Play | None) -> set[str]:
    """Returns the capabilities that the model must claim for tools that it calls."""
    if play is None:
        return set()
    return {"IMAGE_INPUT", "MULTI_IMAGE"} | ({"TOOLS"} if play.box.protocol.name == NATIVE_TOOLS else set())


def check_rendering(play: Play | None, info: model.GetModelInfoResponse, where: str) -> None:
    """Makes sure that the model sees the images that tools give back.

    Raises:
        ConfigError: If its server refuses them.
    """
    refused = info.tool_rendering.images == model.TOOL_IMAGES_REFUSED
    if play and play.box.protocol.name == NATIVE_TOOLS and refused:
        raise ConfigError(
            f"{info.model_name} at {where} takes no images in results of tools: give --protocol the name of a protocol "
            "in text, for example --protocol qwen"
        )
