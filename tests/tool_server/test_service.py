"""ToolService over real gRPC: sessions, replays, bounds, images by hash and failures."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from helpers.toolsets import DEFAULT, Conversation, Recorded, served
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, Unavailable, dial
from lyncean.tool.v1 import tool_pb2 as pb, tool_pb2_grpc
from lyncean.vocabulary.tool_results import MAX_TEXT, result_sha256
from tool_server.load import load
from tool_server.sessions import Work
from tool_server.settings import Limits
from tool_server.types import Output, Session, Toolset

EXAMPLE = Path(__file__).parents[2] / "examples" / "counter_tools.py"


@contextlib.asynccontextmanager
async def serving(toolset: Toolset, limits: Limits = DEFAULT) -> AsyncIterator[tool_pb2_grpc.ToolServiceAsyncStub]:
    async with served(toolset, limits) as address, dial(address) as channel:
        yield tool_pb2_grpc.ToolServiceStub(channel)


def request(arguments: str, history: Sequence[tuple[str, str]] = (), **fields: object) -> pb.CallToolRequest:
    """Returns a call of `say` after others with their results."""
    earlier = [
        pb.EarlierCall(name="say", arguments=text, result_sha256=result_sha256([result], False))
        for text, result in history
    ]
    return pb.CallToolRequest(name="say", arguments=arguments, history=earlier, **fields)


async def refused(call: object) -> CallError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return CallError.from_rpc(caught.value)


def png(colour: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), colour).save(buffer, "PNG")
    return buffer.getvalue()


async def test_a_session_is_kept_and_made_anew_where_it_is_lost() -> None:
    tools = Recorded()
    async with serving(tools, Limits(concurrency=1, sessions=1)) as stub:
        assert (await stub.CallTool(request('{"a": 1}'))).content[0].text == "1 0"
        kept = await stub.CallTool(request('{"a": 2}', [('{"a": 1}', "1 0")]))
        assert (kept.content[0].text, kept.replayed) == ("2 0", 0)
        await stub.CallTool(request('{"b": 1}'))  # there is room for one session alone
        lost = await stub.CallTool(request('{"a": 3}', [('{"a": 1}', "1 0"), ('{"a": 2}', "2 0")]))
        assert (lost.content[0].text, lost.replayed) == ("3 0", 2)
    assert tools.calls == ['{"a": 1}', '{"a": 2}', '{"b": 1}', '{"a": 1}', '{"a": 2}', '{"a": 3}']
    assert (tools.opened, tools.most_open, tools.open_now) == (3, 1, 0)


async def test_a_replay_with_another_result_is_aborted() -> None:
    tools = Recorded()
    async with serving(tools) as stub:
        error = await refused(stub.CallTool(request("{}", [("{}", "another result")])))
    assert (error.code, error.reason) == (grpc.StatusCode.ABORTED, "replay_differs")
    assert error.consequence.retries == 1
    assert tools.calls == ["{}"]
    assert not tools.open_now


async def test_tools_without_state_replay_nothing() -> None:
    tools = Recorded()
    tools.stateful = False
    async with serving(tools) as stub:
        await stub.CallTool(request("{}", [("{}", "any"), ("{}", "result")]))
        await stub.CallTool(request("{}", [("{}", "any"), ("{}", "result")]))
    assert (tools.opened, len(tools.calls)) == (1, 2)


async def test_images_are_those_of_their_time_in_a_replay() -> None:
    tools = Recorded()
    images = [model.Image(data=png("red")), model.Image(data=png("blue"))]
    async with serving(tools) as stub:
        earlier = pb.EarlierCall(name="say", arguments="{}", images=1, result_sha256=result_sha256(["1 1"], False))
        answer = await stub.CallTool(pb.CallToolRequest(name="say", images=images, history=[earlier]))
        assert (answer.content[0].text, answer.replayed) == ("2 2", 1)
        other = [model.Image(data=png("green")), images[1]]
        answer = await stub.CallTool(pb.CallToolRequest(name="say", images=other, history=[earlier]))
        assert answer.replayed == 1, "another image is another conversation"


async def test_images_are_sent_by_their_hash() -> None:
    tools, data = Recorded(), png("red")
    digest = hashlib.sha256(data).digest()
    async with serving(tools) as stub:
        alone = pb.CallToolRequest(name="say", images=[model.Image(sha256=digest)])
        assert (await refused(stub.CallTool(alone))).reason == "media_not_held"
        await stub.CallTool(pb.CallToolRequest(name="say", images=[model.Image(data=data, sha256=digest)]))
        assert (await stub.CallTool(alone)).content[0].text == "1 1"
        wrong = pb.CallToolRequest(name="say", images=[model.Image(data=data, sha256=bytes(32))])
        assert (await refused(stub.CallTool(wrong))).reason == "hash_mismatch"


async def test_a_tool_that_fails_is_a_status_and_its_session_ends() -> None:
    def fail(tools: Recorded, arguments: str) -> Output | None:
        if "busy" in arguments:
            raise Unavailable("busy", "later")
        raise KeyError("secret")

    tools = Recorded(fail)
    async with serving(tools) as stub:
        error = await refused(stub.CallTool(request("{}")))
        assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "tool_failed")
        assert "secret" not in str(error)
        assert (await refused(stub.CallTool(request('{"busy": 1}')))).code is grpc.StatusCode.UNAVAILABLE
    assert not tools.open_now


@pytest.mark.parametrize(
    "output",
    [
        Output(()),
        Output((b"",)),
        Output(("x" * (MAX_TEXT + 1),)),
        Output(("x",) * 65),
        Output(("x",), facts={"seconds": float("nan")}),
        Output((7,)),  # type: ignore[arg-type]
        "text",
    ],
)
async def test_outputs_beyond_the_bounds_are_failures(output: Output) -> None:
    async with serving(Recorded(lambda tools, arguments: output)) as stub:
        assert (await refused(stub.CallTool(request("{}")))).reason == "bad_output"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (pb.CallToolRequest(name="other"), "unknown_tool"),
        (pb.CallToolRequest(name="say", revision="0"), "other_revision"),
        (pb.CallToolRequest(name="say", arguments=" " * 1_048_577), "arguments_too_long"),
        (pb.CallToolRequest(name="say", images=[model.Image()]), "bad_image"),
        (pb.CallToolRequest(name="say", history=[pb.EarlierCall(name="say")]), "bad_history"),
        (request("{}", [("{}", "x")] * 1025), "history_too_long"),
        (
            pb.CallToolRequest(name="say", history=[pb.EarlierCall(name="say", images=1, result_sha256=bytes(32))]),
            "bad_history",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_requests_beyond_the_contract_are_refused(wrong: pb.CallToolRequest, reason: str) -> None:
    tools = Recorded()
    async with serving(tools) as stub:
        assert (await refused(stub.CallTool(wrong))).reason == reason
    assert not tools.calls


@pytest.mark.parametrize("arguments", ["{", "[]", '{"number": "three"}', "[" * 100_000, '{"number": NaN}', ""])
async def test_wrong_arguments_are_the_models_to_read(arguments: str) -> None:
    async with serving(load(EXAMPLE)) as stub:
        answer = await stub.CallTool(pb.CallToolRequest(name="add", arguments=arguments))
        assert answer.is_error
        assert answer.content[0].text.startswith("The arguments of add ")


async def test_the_example_counts_and_mirrors() -> None:
    async with serving(load(EXAMPLE)) as stub:
        listing = await stub.ListTools(pb.ListToolsRequest())
        assert [tool.name for tool in listing.tools] == ["add", "mirror"]
        assert listing.revision
        assert listing.stateful
        answer = await stub.CallTool(pb.CallToolRequest(name="add", arguments='{"number": -1}'))
        assert (answer.is_error, answer.content[0].text) == (True, "The total cannot be below 0.")
        image = Image.new("RGB", (2, 1), "red")
        image.putpixel((0, 0), (0, 0, 255))
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        call = pb.CallToolRequest(name="mirror", arguments='{"image": 1}', images=[model.Image(data=buffer.getvalue())])
        mirrored = Image.open(io.BytesIO((await stub.CallTool(call)).content[0].image.data))
        assert mirrored.getpixel((1, 0)) == (0, 0, 255)
        call.arguments = '{"image": 2}'
        assert (await stub.CallTool(call)).content[0].text == "There is no image 2: the last one is 1."


def test_a_docstring_of_arguments_alone_describes_them(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    docstring = '        """Args:\n            number: The count.\n        """\n'
    code = f"class Counter(Tools):\n    def count(self, number: int) -> str:\n{docstring}        return ''\n"
    file.write_text(f"from tool_server.kit import Tools\n\n\n{code}")
    (tool,) = load(file).tools()
    (argument,) = json.loads(tool.input_schema)["properties"].values()
    assert (tool.description, argument["description"]) == ("", "The count.")


async def test_sixty_four_conversations_stay_within_their_limits() -> None:
    lock, now, most = threading.Lock(), 0, 0
    together = threading.Barrier(4)

    def act(tools: Recorded, arguments: str) -> None:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        together.wait(60)
        with lock:
            now -= 1

    tools = Recorded(act)

    async def converse(stub: tool_pb2_grpc.ToolServiceAsyncStub, number: int) -> None:
        history: list[tuple[str, str]] = []
        for turn in range(3):
            arguments = f'{{"number": {number}}}'
            answer = await stub.CallTool(request(arguments, history))
            assert answer.content[0].text == f"{turn + 1} 0"
            history.append((arguments, answer.content[0].text))

    async with serving(tools, Limits(concurrency=4, sessions=64)) as stub:
        await asyncio.gather(*(converse(stub, number) for number in range(64)))
        assert (most, tools.most_open, len(tools.calls)) == (4, 64, 192)
    assert not tools.open_now


async def test_more_calls_than_may_wait_are_sent_back() -> None:
    entered, go = threading.Event(), threading.Event()

    def act(tools: Recorded, arguments: str) -> None:
        entered.set()
        go.wait(60)

    async with serving(Recorded(act), Limits(concurrency=1, queue=1)) as stub:
        first = [asyncio.ensure_future(stub.CallTool(request(f'{{"n": {n}}}'))) for n in range(2)]
        await asyncio.to_thread(entered.wait, 60)
        error = await refused(stub.CallTool(request("{}")))
        assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "queue_full")
        go.set()
        await asyncio.gather(*first)


async def test_a_call_that_nobody_waits_for_keeps_no_session() -> None:
    entered, go = threading.Event(), threading.Event()

    def act(tools: Recorded, arguments: str) -> None:
        entered.set()
        go.wait(60)

    tools = Recorded(act)
    absent = request("{}", images=[model.Image(sha256=bytes(32))])
    async with serving(tools, Limits(concurrency=1, queue=0)) as stub:
        call = stub.CallTool(request("{}"))
        await asyncio.to_thread(entered.wait, 60)
        call.cancel()
        while (await refused(stub.CallTool(absent))).reason == "queue_full":
            await asyncio.sleep(0.01)  # the server has not heard of it
        go.set()
        while tools.open_now:
            await asyncio.sleep(0.01)


async def test_images_are_hashed_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[bool]()

    def work(**fields: Any) -> Work:
        threads.add(threading.current_thread() is threading.main_thread())
        return Work(**fields)

    monkeypatch.setattr("tool_server.service.Work", work)
    async with serving(Recorded()) as stub:
        await stub.CallTool(request("{}", images=[model.Image(data=png("red"))]))
    assert threads == {False}


async def test_sessions_are_closed_together() -> None:
    """Each waits as it closes until all of them do."""
    meeting = threading.Barrier(8)
    met: list[int] = []

    class Slow(Conversation):
        def close(self) -> None:
            met.append(meeting.wait(60))

    class Tools(Recorded):
        def open(self) -> Session:
            return Slow(self)

    async with serving(Tools(), Limits(concurrency=8)) as stub:
        await asyncio.gather(*(stub.CallTool(request(json.dumps({"n": number}))) for number in range(8)))
    assert sorted(met) == list(range(8))
