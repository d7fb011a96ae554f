"""`--tools grpc:H:P`: calls of servers of tools, their failures, their place in the run's identity, and their waits."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from click.testing import CliRunner
from helpers.certificates import issue
from helpers.toolsets import Recorded, served
from PIL import Image

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import Credentials, ServerConfig
from lyncean.rpc.errors import NotHeld, StatusError, trailing_metadata
from lyncean.rpc.security import Tls
from lyncean.tool.v1 import tool_pb2 as pb, tool_pb2_grpc
from orchestrator.api import evaluate
from orchestrator.cli import main
from orchestrator.engine.resolve import parse_endpoints
from orchestrator.engine.tool_server import ToolServer
from orchestrator.errors import ConfigError, IncompleteError
from orchestrator.run_folder.manifest import ManifestError
from tool_server.service import Servicer
from tool_server.settings import Limits
from tool_server.types import Output

TASK = "data: rows.jsonl\nid: id\nimage: image\nquestion: question\noptions: [A, B, C, D]\nanswer: answer\n"
CLAIMS = ("GENERATE", "IMAGE_INPUT", "MULTI_IMAGE", "TOOLS", "SEED")


class Script(model_grpc.ModelServiceServicer):
    """A model that makes the calls which its question lists, one in each answer, and then answers B."""

    def __init__(self) -> None:
        self.requests: list[model.GenerateRequest] = []
        self.answered: Callable[[], None] = lambda: None

    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        claims = [model.Capability.Value(f"CAPABILITY_{name}") for name in CLAIMS]
        return model.GetModelInfoResponse(
            model_name="script",
            model_revision="1",
            boot_id="b",
            capabilities=claims,
            max_concurrency=16,
            tool_rendering=model.ToolRendering(images=model.TOOL_IMAGES_IN_RESULT),
        )

    async def Generate(self, request: model.GenerateRequest, context: Any) -> model.GenerateResponse:  # noqa: N802
        self.requests.append(request)
        turn = sum(message.role == model.ROLE_ASSISTANT for message in request.messages)
        script = json.loads(request.messages[0].parts[-1].text.splitlines()[0])
        usage = model.Usage(input_tokens=10, output_tokens=5)
        response = model.GenerateResponse(finish_reason=model.FINISH_REASON_END_OF_SEQUENCE, usage=usage)
        response.served_by.model_revision, response.served_by.boot_id = "1", "b"
        if turn >= len(script):
            response.parts.add(text="The answer is B.")
            self.answered()
        else:
            name, arguments = script[turn]
            call = model.ToolCall(id=f"call_{turn}", name=name, arguments=json.dumps(arguments))
            response.parts.add(tool_call=call)
            response.finish_reason = model.FINISH_REASON_TOOL_CALLS
        return response


@pytest.fixture
async def script() -> AsyncIterator[tuple[Script, str]]:
    server, servicer = grpc.aio.server(), Script()
    model_grpc.add_ModelServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield servicer, f"127.0.0.1:{port}"
    await server.stop(None)


def task(folder: Path, *scripts: list[tuple[str, dict[str, object]]]) -> str:
    """Writes a task with one row for each script."""
    lines = []
    for number, calls in enumerate(scripts):
        buffer = io.BytesIO()
        Image.new("RGB", (64, 48), (number, 9, 99)).save(buffer, "PNG")
        (folder / f"{number}.png").write_bytes(buffer.getvalue())
        row = {"id": number, "image": f"{number}.png", "question": json.dumps(calls), "answer": "B"}
        lines.append(orjson.dumps(row | {letter: f"number {letter}" for letter in "ABCD"}))
    (folder / "rows.jsonl").write_bytes(b"\n".join(lines))
    (folder / "scripts.yaml").write_text(TASK)
    return str(folder / "scripts.yaml")


async def run(task: str, endpoint: str, tools: str | list[str], name: str = "run", **more: Any) -> dict[str, Any]:
    """Runs a task with servers of tools; returns its results."""
    addresses = [tools] if isinstance(tools, str) else tools
    specs = [address if address.isalpha() else f"grpc:{address}" for address in addresses]
    folder = Path(task).parent / name
    await asyncio.to_thread(lambda: evaluate(task, endpoint=endpoint, tools=specs, run=folder, **more))
    loaded: dict[str, Any] = orjson.loads((folder / "results.json").read_bytes())
    return loaded


def results(run: Path) -> list[dict[str, Any]]:
    """Returns what tools gave back, in the order of their keys."""
    lines = map(orjson.loads, (run / "responses.jsonl").read_bytes().splitlines())
    return [line["tool"] for line in sorted(lines, key=lambda line: str(line["key"])) if line.get("tool")]


def errors(run: Path) -> list[dict[str, Any]]:
    lines = map(orjson.loads, (run / "responses.jsonl").read_bytes().splitlines())
    return [line["error"] for line in lines if line.get("error")]


async def test_calls_are_made_with_their_history_and_are_part_of_the_identity(
    tmp_path: Path, script: tuple[Script, str]
) -> None:
    rows = task(
        tmp_path, [("say", {"n": n}) for n in range(3)], [("zoom", {"image": 1, "box": [0, 0, 500, 500]}), ("say", {})]
    )
    tools = Recorded()
    async with served(tools) as address:
        report = await run(rows, script[1], ["zoom", address])
    assert report["tools"]["names"] == ["zoom"]
    (server,) = report["tools"]["servers"]
    assert server == {
        "revision": "1",
        "stateful": True,
        "tools": [{"name": "say", "input_schema": '{"type": "object"}'}],
    }
    identity = orjson.loads((tmp_path / "run" / "manifest.json").read_bytes())["identity"]
    assert identity["tools"]["servers"] == [server]
    texts = [piece.get("text") for line in results(tmp_path / "run") for piece in line["content"] if "text" in piece]
    assert texts == ["1 1", "2 1", "3 1", "Image 2, 591 x 443 pixels:", "1 2"]
    assert (tools.opened, len(tools.calls)) == (2, 4)
    assert {tool.name for tool in script[0].requests[0].tools} == {"zoom", "say"}


async def test_prompts_have_the_tools_of_servers(tmp_path: Path) -> None:
    arguments = ["prompts", "--task", task(tmp_path, [("say", {})]), "--tools", "zoom"]
    async with served(Recorded()) as address:
        done = await asyncio.to_thread(CliRunner().invoke, main, [*arguments, "--tools", f"grpc:{address}"])
    assert done.exit_code == 0, done.output
    request = orjson.loads(done.stdout)["request"]
    assert [tool["name"] for tool in request["tools"]] == ["zoom", "say"]


async def test_a_failing_tool_fails_the_item_and_another_run_makes_its_call_alone(
    tmp_path: Path, script: tuple[Script, str]
) -> None:
    def act(tools: Recorded, arguments: str) -> None:
        if "broken" in arguments:
            raise OSError("the disk of the tool")

    rows = task(tmp_path, [("say", {"n": 1}), ("say", {"broken": 1})], [("say", {"n": 2})])
    tools = Recorded(act)
    async with served(tools) as address:
        with pytest.raises(IncompleteError, match="1 items failed after retries"):
            await run(rows, script[1], address)
        assert errors(tmp_path / "run")[-1]["reason"] == "tool_failed"
        assert "server of tools" in errors(tmp_path / "run")[-1]["message"]
        assert tools.calls.count('{"broken": 1}') == 2, "it was made again once"
        tools.act, tools.calls[:] = lambda tools, arguments: None, []
        report = await run(rows, script[1], address)
    assert report["tools"]["tool_calls"] == 3
    assert tools.calls == ['{"n": 1}', '{"broken": 1}'], "the first for the session alone"


async def test_tools_that_changed_are_refused_at_a_resume(tmp_path: Path, script: tuple[Script, str]) -> None:
    rows, tools = task(tmp_path, [("say", {})]), Recorded()
    async with served(tools) as address:
        await run(rows, script[1], address)
    async with served(tools) as address:
        await run(rows, script[1], address)  # at another address, which says nothing
    tools.revision = "2"
    async with served(tools) as address:
        with pytest.raises(ManifestError, match="have the revision '2', and the run began with '1'; serve those"):
            await run(rows, script[1], address)


async def test_tools_that_change_in_a_run_end_it(tmp_path: Path, script: tuple[Script, str]) -> None:
    listed = pb.ListToolsResponse(tools=[model.Tool(name="say")], revision="1", stateful=True, max_concurrency=1)
    async with answering(listed, lambda _: result("a", revision="2")) as (_, address):
        with pytest.raises(
            ConfigError, match=r"has changed since the run began: .* serve the tools that it began with"
        ):
            await run(task(tmp_path, [("say", {})]), script[1], address)
    assert not results(tmp_path / "run")


def result(*texts: str, revision: str = "1", **fields: Any) -> pb.CallToolResponse:
    return pb.CallToolResponse(content=[model.Part(text=text) for text in texts], revision=revision, **fields)


class Answering(tool_pb2_grpc.ToolServiceServicer):
    """A ToolService that answers as a function says."""

    def __init__(self, listing: pb.ListToolsResponse, act: Callable[[pb.CallToolRequest], pb.CallToolResponse]) -> None:
        self.listing, self.act = listing, act
        self.requests: list[pb.CallToolRequest] = []

    async def ListTools(self, request: Any, context: Any) -> pb.ListToolsResponse:  # noqa: N802
        return self.listing

    async def CallTool(self, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:  # noqa: N802
        self.requests.append(request)
        try:
            return self.act(request)
        except StatusError as error:
            await context.abort(error.code, str(error), trailing_metadata=trailing_metadata(error))


@contextlib.asynccontextmanager
async def answering(
    listing: pb.ListToolsResponse, act: Callable[[pb.CallToolRequest], pb.CallToolResponse]
) -> AsyncIterator[tuple[Answering, str]]:
    server, servicer = grpc.aio.server(), Answering(listing, act)
    tool_pb2_grpc.add_ToolServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield servicer, f"127.0.0.1:{port}"
    await server.stop(None)


def listing(**fields: Any) -> pb.ListToolsResponse:
    defaults = {"tools": [model.Tool(name="say")], "revision": "1", "stateful": True, "max_concurrency": 4}
    return pb.ListToolsResponse(**(defaults | fields))


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (result(), "holds nothing"),
        (result(*["x"] * 65), "65 parts"),
        (result("x" * 1_048_577), "bytes of text"),
        (result("x", facts={"a": float("inf")}), "not finite"),
        (pb.CallToolResponse(content=[model.Part(image=model.Image(data=b"no image"))], revision="1"), "an image"),
        (pb.CallToolResponse(content=[model.Part(tool_call=model.ToolCall())], revision="1"), "beside texts"),
    ],
    ids=["empty", "parts", "text", "facts", "image", "kind"],
)
async def test_results_that_break_the_contract_fail_the_item(
    tmp_path: Path, script: tuple[Script, str], response: pb.CallToolResponse, message: str
) -> None:
    async with answering(listing(), lambda _: response) as (server, address):
        with pytest.raises(IncompleteError):
            await run(task(tmp_path, [("say", {})]), script[1], address)
    (error,) = [entry for entry in errors(tmp_path / "run") if entry]
    assert error["reason"] == "bad_response"
    assert message in error["message"]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tools": []}, "0 tools"),
        ({"tools": [model.Tool(name="say"), model.Tool(name="say")]}, "2 tools, of which 1 have names of their own"),
        ({"tools": [model.Tool(name="s\x1by")]}, "a name that is not"),
        ({"tools": [model.Tool(name="say", input_schema="[" * 99)]}, "not a JSON object"),
        ({"revision": ""}, "its revision"),
        ({"max_concurrency": 0}, "max_concurrency"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
async def test_listings_that_break_the_contract_are_refused(
    tmp_path: Path, script: tuple[Script, str], changed: dict[str, Any], message: str
) -> None:
    async with answering(listing(**changed), lambda _: result("a")) as (_, address):
        with pytest.raises(ConfigError, match="breaks the contract") as caught:
            await run(task(tmp_path, [("say", {})]), script[1], address)
    assert message in str(caught.value)
    assert not (tmp_path / "run" / "manifest.json").exists()


async def test_images_are_sent_once_where_they_are_held(tmp_path: Path, script: tuple[Script, str]) -> None:
    rows = task(tmp_path, [("say", {}), ("say", {}), ("say", {})])
    forgets = True

    async with answering(listing(max_held_bytes=1 << 20), lambda _: result("a")) as (server, address):
        await run(rows, script[1], address)
        sent = [(bool(image.data), len(image.sha256)) for request in server.requests for image in request.images]
        assert sent == [(True, 32), (False, 32), (False, 32)]

    def forget(request: pb.CallToolRequest) -> pb.CallToolResponse:
        nonlocal forgets
        if forgets and not request.images[0].data:
            forgets = False
            raise NotHeld([request.images[0].sha256])
        return result("a")

    async with answering(listing(max_held_bytes=1 << 20), forget) as (_, address):
        report = await run(rows, script[1], address, "again")
    assert not forgets
    assert report["tools"]["tool_calls"] == 3


async def test_a_slow_tool_holds_up_no_other_item(tmp_path: Path, script: tuple[Script, str]) -> None:
    """The first row's call ends once all other rows have their answers."""
    others, count = threading.Event(), 0

    def answered() -> None:
        nonlocal count
        count += 1
        if count == 19:
            others.set()

    def act(tools: Recorded, arguments: str) -> Output:
        return Output(("the others are done" if "slow" not in arguments or others.wait(120) else "nobody is",))

    script[0].answered = answered
    rows = task(tmp_path, [("say", {"slow": 1})], *[[("say", {"n": n})] for n in range(19)])
    async with served(Recorded(act)) as address:
        await run(rows, script[1], address)
    assert {piece["text"] for line in results(tmp_path / "run") for piece in line["content"]} == {"the others are done"}


async def test_calls_stay_within_what_the_server_makes_at_a_time(tmp_path: Path, script: tuple[Script, str]) -> None:
    lock, now, most, both = threading.Lock(), 0, 0, threading.Barrier(2)

    def act(tools: Recorded, arguments: str) -> None:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        both.wait(60)
        with lock:
            now -= 1

    rows = task(tmp_path, *[[("say", {"n": n})] for n in range(16)])
    async with served(Recorded(act), Limits(concurrency=2, queue=0)) as address:
        await run(rows, script[1], address)
    assert most == 2


async def test_a_session_that_cannot_be_had_again_fails_the_item(tmp_path: Path, script: tuple[Script, str]) -> None:
    rows, calls = task(tmp_path, [("say", {"n": 1}), ("say", {"n": 2})]), 0

    def act(tools: Recorded, arguments: str) -> Output:
        nonlocal calls
        calls += 1
        if "2" in arguments:
            raise OSError  # ends the session
        return Output((f"call {calls}",))

    async with served(Recorded(act)) as address:
        with pytest.raises(IncompleteError):
            await run(rows, script[1], address)
    assert errors(tmp_path / "run")[-1]["reason"] == "replay_differs"


async def test_servers_that_are_not_there_or_something_else(tmp_path: Path, script: tuple[Script, str]) -> None:
    rows = task(tmp_path, [("say", {})])
    with pytest.raises(IncompleteError, match=r"the server of tools at 127\.0\.0\.1:9 does not answer .* start it"):
        await run(rows, script[1], "127.0.0.1:9", patience=0.1)
    with pytest.raises(ConfigError, match=r"does not speak lyncean\.tool\.v1\.ToolService"):
        await run(rows, script[1], script[1])
    for spec, wrong in (("grpc:", "is empty"), ("grpc:here", "is not host:port"), ("grpc:a:b@c:1", "names a user")):
        with pytest.raises(ConfigError, match=wrong) as caught:
            evaluate(rows, endpoint=script[1], tools=spec, run=tmp_path / "run")
        assert "b@" not in str(caught.value)
    async with served(Recorded()) as one, served(Recorded()) as other:
        with pytest.raises(ConfigError, match="two tools are named 'say'"):
            await run(rows, script[1], [one, other])


async def test_a_server_that_lists_no_tools_is_waited_for_within_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Servicer):
        async def ListTools(self, request: pb.ListToolsRequest, context: Any) -> pb.ListToolsResponse:  # noqa: N802
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr("helpers.toolsets.Servicer", Silent)
    async with served(Recorded()) as address:
        (endpoint,) = parse_endpoints([address])
        server = ToolServer(endpoint, Credentials(), timeout=600, patience=0.1, notify=lambda _: None)
        with pytest.raises(IncompleteError, match=f"the tools at {address} kept silent for 5 s; every answer is safe"):
            await server.connect()
        await server.close()


async def test_a_server_of_tools_gets_its_own_token_alone(
    tmp_path: Path, script: tuple[Script, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, mine = task(tmp_path, [("say", {})]), Credentials(token="of-the-run")
    seen: list[Any] = []

    class Seeing(Servicer):
        async def CallTool(self, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:  # noqa: N802
            seen.append(dict(context.invocation_metadata()).get("authorization"))
            return await super().CallTool(request, context)

    monkeypatch.setattr("helpers.toolsets.Servicer", Seeing)
    async with served(Recorded()) as address:
        await run(rows, script[1], address, "open", credentials=mine)
    async with served(Recorded(), config=ServerConfig(token="of-the-tools", grace=0)) as address:
        with pytest.raises(ConfigError, match=r"its token is missing or wrong: set \$LYNCEAN_TOOL_TOKEN"):
            await run(rows, script[1], address, credentials=mine)
        monkeypatch.setenv("LYNCEAN_TOOL_TOKEN", "of-the-tools")
        await run(rows, script[1], address, credentials=mine)
    assert seen == [None, "Bearer of-the-tools"]


async def test_tls_and_tokens(tmp_path: Path) -> None:
    authority = {"spec": {"isCA": True, "commonName": "test"}}
    leaf = {"spec": {"dnsNames": ["localhost"], "usages": ["server auth"], "secretName": "tools"}}
    for name, data in issue([authority, leaf])["tools"].items():
        (tmp_path / name).write_bytes(data)
    tls = Tls(tmp_path / "tls.crt", tmp_path / "tls.key")
    trusted = Tls(ca=tmp_path / "ca.crt", server_name="localhost")

    async def listed(credentials: Credentials) -> str:
        (endpoint,) = parse_endpoints([address])
        server = ToolServer(endpoint, credentials, timeout=60, patience=0.1, notify=lambda _: None)
        try:
            await server.connect()
            return server.listing.revision
        finally:
            await server.close()

    async with served(Recorded(), config=ServerConfig(tls=tls, token="secret", grace=0)) as address:
        assert await listed(Credentials(trusted, "secret")) == "1"
        with pytest.raises(ConfigError, match="refuses the credential"):
            await listed(Credentials(trusted, "wrong"))
        with pytest.raises(IncompleteError, match="without TLS as asked for here"):
            await listed(Credentials())
