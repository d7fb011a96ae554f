"""The conformance kit for servers of tools: whole ones pass it, and every check can fail."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.toolsets import served

from lyncean import rpc
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, Server, ServerConfig
from lyncean.tool.v1 import tool_pb2 as pb
from orchestrator.cli.check import command
from orchestrator.conformance import Status, judge_tools
from orchestrator.conformance.example import example
from orchestrator.conformance.tools import CHECKS
from tool_server.load import load
from tool_server.service import Servicer

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "counter_tools.py"


class Mutant(Servicer):
    """A server that is whole but for what a function does to a call."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.count = 0

    async def whole(self, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
        return await Servicer.CallTool(self, request, context)


def listed(change: Callable[[Any, pb.ListToolsResponse], None]) -> type[Servicer]:
    """Returns a server whose description is changed."""

    class Changed(Mutant):
        async def ListTools(self, request: Any, context: Any) -> pb.ListToolsResponse:  # noqa: N802
            response = pb.ListToolsResponse.FromString((await super().ListTools(request, context)).SerializeToString())
            self.count += 1
            change(self, response)
            return response

    return Changed


def called(change: Callable[[Any, pb.CallToolRequest, Any], Any]) -> type[Servicer]:
    """Returns a server whose calls are made by a function."""

    class Changed(Mutant):
        async def CallTool(self, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:  # noqa: N802
            response: pb.CallToolResponse = await change(self, request, context)
            return response

    return Changed


async def no_revision(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    response = await server.whole(request, context)
    response.ClearField("revision")
    return response


async def infinite(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    response = await server.whole(request, context)
    response.facts["seconds"] = float("inf")
    return response


async def strict(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    response = await server.whole(request, context)
    if response.is_error and "arguments" in response.content[0].text:
        raise rpc.InvalidRequest("bad_arguments", "the arguments are wrong")
    return response


async def obliging(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    for call in (request, *request.history):
        call.name = call.name if call.name in ("add", "mirror") else "add"
    return await server.whole(request, context)


async def boundless(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    request.arguments = request.arguments[:100]
    return await server.whole(request, context)


async def any_revision(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    request.ClearField("revision")
    return await server.whole(request, context)


async def one_for_all(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    response = await server.whole(request, context)
    if not request.history and not response.is_error:
        server.count += 1
        response.content[0].text = f"The total is {server.count}."
    return response


async def forgetful(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    """Has a session once, and makes none anew."""
    response = await server.whole(request, context)
    if response.replayed and response.content[0].text:
        response.content[0].text += " Or not."
    return response


async def trusting(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    try:
        return await server.whole(request, context)
    except rpc.StatusError as error:
        if error.reason != "replay_differs":
            raise
        return pb.CallToolResponse(content=[model.Part(text="Well.")], revision=server._listing.revision)


async def misnaming(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    try:
        return await server.whole(request, context)
    except rpc.StatusError as error:
        raise rpc.InvalidRequest(error.reason, "no") if error.reason == "media_not_held" else error from None


async def confused(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    server.count += 1
    try:
        busy = server.count > 2
        await asyncio.sleep(0.01)
        if busy and request.history:
            raise InternalFailure("busy", "two calls at a time")
        return await server.whole(request, context)
    finally:
        server.count -= 1


async def pedantic(server: Any, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
    if b"later" in request.SerializeToString():
        raise rpc.InvalidRequest("unknown_field", "what is that?")
    return await server.whole(request, context)


def twice(server: Any, listing: pb.ListToolsResponse) -> None:
    listing.tools.add(name="add")


def drifting(server: Any, listing: pb.ListToolsResponse) -> None:
    listing.server_version = str(server.count)


BROKEN: dict[str, tuple[type[Servicer], set[str]]] = {
    "lists_good_tools": (listed(twice), set()),
    "listing_is_stable": (listed(drifting), set()),
    "calls_are_answered": (called(infinite), set()),
    "results_carry_the_revision": (called(no_revision), set()),
    "wrong_arguments_are_results": (called(strict), set()),
    "unknown_tools_are_refused": (called(obliging), set()),
    "bounds_are_kept": (called(boundless), set()),
    "other_revisions_are_refused": (called(any_revision), set()),
    "conversations_are_apart": (
        called(one_for_all),
        {"sessions_are_made_anew", "many_conversations_at_once", "later_fields_are_ignored", "images_go_by_their_hash"},
    ),
    "sessions_are_made_anew": (called(forgetful), {"many_conversations_at_once"}),
    "other_results_abort": (called(trusting), set()),
    "images_go_by_their_hash": (called(misnaming), set()),
    "many_conversations_at_once": (called(confused), set()),
    "later_fields_are_ignored": (called(pedantic), set()),
}


async def judged(address: str, only: Sequence[str] = (), **options: Any) -> dict[str, tuple[Status, str]]:
    results = [result async for result in judge_tools(address, timeout=30, only=only, **options)]
    return {result.check.name: (result.status, result.detail) for result in results}


def failed(results: dict[str, tuple[Status, str]]) -> dict[str, str]:
    return {name: detail for name, (status, detail) in results.items() if status is Status.FAILED}


async def test_a_whole_server_fails_nothing() -> None:
    async with served(load(EXAMPLE)) as address:
        results = await judged(address)
    assert results.keys() == CHECKS.keys()
    assert not failed(results)
    assert [name for name, (status, _) in results.items() if status is Status.SKIPPED] == ["tools_token_is_demanded"]


async def test_conversations_at_once_may_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may start a process for each of 64 sessions: their calls have more time than one alone."""
    left: list[float] = []

    async def timed(server: Any, request: pb.CallToolRequest, context: Any) -> Any:
        left.append(context.time_remaining())
        return await server.whole(request, context)

    monkeypatch.setattr("helpers.toolsets.Servicer", called(timed))
    async with served(load(EXAMPLE)) as address:
        assert not failed(await judged(address, ["many_conversations_at_once"]))
    alone, together = left[:2], left[2:]
    assert max(alone) < 60 < min(together), "seconds"


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_server_fails_its_check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, others = BROKEN[name]
    monkeypatch.setattr("helpers.toolsets.Servicer", kind)
    async with served(load(EXAMPLE)) as address:
        failures = failed(await judged(address))
    assert name in failures
    assert failures.keys() - {name} <= others, failures


async def test_a_schema_that_has_no_example_fails_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(_: Any, response: pb.ListToolsResponse) -> None:
        response.tools[0].input_schema = '{"type": "object", "required": 5}'

    monkeypatch.setattr("helpers.toolsets.Servicer", listed(change))
    async with served(load(EXAMPLE)) as address:
        failures = failed(await judged(address))
    assert "the schema of add cannot be read" in failures["calls_are_answered"]


async def test_a_token_that_is_not_demanded_is_found() -> None:
    credentials = rpc.Credentials(token="secret")
    for config, details in ((ServerConfig(token="secret", grace=0), []), (ServerConfig(grace=0), ["is answered"])):
        async with served(load(EXAMPLE), config=config) as address:
            failures = failed(await judged(address, ["tools_token_is_demanded"], credentials=credentials))
        assert [detail.rpartition("token ")[2] for detail in failures.values()] == details


async def test_a_server_without_its_health_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Server, serving: bool = True) -> None:
        pass

    monkeypatch.setattr(Server, "set_serving", nothing)
    async with served(load(EXAMPLE)) as address:
        assert "tools_health_has_both_names" in failed(await judged(address, ["tools_health_has_both_names"]))


def test_every_check_is_broken_by_a_server() -> None:
    assert BROKEN.keys() | {"tools_token_is_demanded", "tools_health_has_both_names"} == CHECKS.keys()
    assert len(CHECKS) >= 10


def test_every_check_quotes_the_contract() -> None:
    protos = [
        (ROOT / "protos" / "lyncean" / name).read_text() for name in ("tool/v1/tool.proto", "model/v1/model.proto")
    ]
    contract = re.sub(
        r"\s+", " ", " ".join(re.sub(r"^\s*(//)?", "", line) for text in protos for line in text.splitlines())
    )
    for check in CHECKS.values():
        assert re.sub(r"\s+", " ", check.contract) in contract, check.name
        assert check.fix.endswith(".")


async def test_the_command(tmp_path: Path) -> None:
    async with served(load(EXAMPLE)) as address:
        arguments = ["--tools", address, "--json", "--junit", str(tmp_path / "check.xml")]
        done = await asyncio.to_thread(CliRunner().invoke, command, arguments)
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert (report["contract"], report["passed"], len(report["checks"])) == ("lyncean.tool.v1", True, len(CHECKS))
        assert "lyncean.tool.v1" in (tmp_path / "check.xml").read_text()
        wrong = await asyncio.to_thread(CliRunner().invoke, command, ["--tools", address, "--only", "info_is_stable"])
        assert "unknown check 'info_is_stable'" in wrong.output
    absent = await asyncio.to_thread(CliRunner().invoke, command, ["--tools", "127.0.0.1:9"])
    assert (absent.exit_code, "does not answer ListTools" in absent.output) == (2, True)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, {}),
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}, {"a": 3}),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"required": ["b"], "properties": {"b": {"enum": ["q"]}}}}}, {"b": "q"}),
        ({"required": ["c"], "properties": {"c": {"anyOf": [{"type": "array", "minItems": 2}]}}}, {"c": ["a", "a"]}),
        ({"$ref": "#"}, "a"),
        ({"type": "string", "minLength": 10**15}, "a" * 1000),
    ],
)
def test_examples_of_schemas(schema: dict[str, Any], value: Any) -> None:
    assert example(schema) == value


async def test_the_command_sends_the_token_of_tools() -> None:
    (arguments, variables) = ["--tools", "", "--only", "listing_is_stable"], {"LYNCEAN_TOKEN": "of-the-run"}
    async with served(load(EXAMPLE), config=ServerConfig(token="of-the-tools", grace=0)) as arguments[1]:
        for token, code in (("of-the-tools", 0), ("another", 2)):
            env = variables | {"LYNCEAN_TOOL_TOKEN": token}
            done = await asyncio.to_thread(CliRunner().invoke, command, arguments, env=env)
            assert done.exit_code == code, done.output
