"""Requests with tools over real gRPC: what no server could answer is refused before the model, alone and in a Batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from helpers.model_serving import refusal
from helpers.tool_turns import ARGUMENTS, called, result, results, tool, user

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import call_stream
from model_server.backend import Backend, Call

ALL = [value for value in model.Capability.values() if value]
NONE = model.ToolChoice(mode=model.TOOL_CHOICE_MODE_NONE)
ZOOM = (tool(),)
REQUIRED = model.ToolChoice(mode=model.TOOL_CHOICE_MODE_REQUIRED)


class Recorder(Backend):
    """Notes what reaches it and answers with given parts."""

    def __init__(self, *parts: model.Part, without: Any = None, **fields: Any) -> None:
        self.answer = model.GenerateResponse(parts=parts, finish_reason=model.FINISH_REASON_END_OF_SEQUENCE, **fields)
        self.capabilities = [capability for capability in ALL if capability != without]
        self.images = model.TOOL_IMAGES_IN_RESULT
        self.seen: list[model.GenerateRequest] = []

    def info(self) -> model.GetModelInfoResponse:
        return model.GetModelInfoResponse(
            model_name="recorder",
            capabilities=self.capabilities,
            max_samples=4,
            tool_rendering=model.ToolRendering(images=self.images),
        )

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        self.seen.append(request)
        copy = model.GenerateResponse()
        copy.CopyFrom(self.answer)
        return copy


def request(*messages: model.Message, tools: Any = ZOOM, **fields: Any) -> model.GenerateRequest:
    return model.GenerateRequest(messages=messages or [user("Find it.")], tools=tools, **fields)


def turn(*parts: model.Part, answer: model.Message | None = None) -> model.GenerateRequest:
    return request(user("Find it."), answer or called("a", "b"), results(*parts))


def many(count: int) -> list[model.Tool]:
    return [tool(f"t{number}") for number in range(count)]


BOTH = (result("a", "x"), result("b", "y"))
BEGUN = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="I")])
ASKS_ITSELF = model.Message(role=model.ROLE_USER, parts=called("a").parts)
INVALID: dict[str, tuple[str, model.GenerateRequest]] = {
    "empty name": ("bad_tool", request(tools=[tool("")])),
    "long name": ("bad_tool", request(tools=[tool("a" * 65)])),
    "name with a blank": ("bad_tool", request(tools=[tool("zoom in")])),
    "name with a line": ("bad_tool", request(tools=[tool("zoom\n")])),
    "name twice": ("bad_tool", request(tools=[tool(), tool()])),
    "long description": ("bad_tool", request(tools=[tool(description="ä" * 8193)])),
    "long schema": ("bad_tool", request(tools=[tool(schema='{"a": "' + "x" * 65_536 + '"}')])),
    "schema of no JSON": ("bad_tool", request(tools=[tool(schema="{")])),
    "schema that is not an object": ("bad_tool", request(tools=[tool(schema="true")])),
    "schema with NaN": ("bad_tool", request(tools=[tool(schema='{"maximum": NaN}')])),
    "deep schema": ("bad_tool", request(tools=[tool(schema="[" * 65_536)])),
    "too many": ("too_many_tools", request(tools=many(129))),
    "choice without tools": ("no_tools_to_choose", request(tools=[], tool_choice=NONE)),
    "parallel without tools": ("no_tools_to_choose", request(tools=[], parallel_tool_calls=False)),
    "empty choice": ("bad_tool_choice", request(tool_choice=model.ToolChoice())),
    "choice of another": ("bad_tool_choice", request(tool_choice=model.ToolChoice(name="crop"))),
    "raw prompt": ("tools_conflict", model.GenerateRequest(tools=[tool()], raw_prompt=model.RawPrompt(text="x"))),
    "format": ("tools_conflict", request(config=model.GenerationConfig(response_format={"regex": "a"}))),
    "image": ("tools_conflict", request(modality=model.MODALITY_IMAGE)),
    "beginning": ("tools_conflict", request(user("x"), BEGUN)),
    "results of nobody": ("bad_tool_results", request(user("x"), results(*BOTH))),
    "results first": ("bad_tool_results", request(results(*BOTH))),
    "empty results": ("empty_message", turn()),
    "one result missing": ("bad_tool_results", turn(BOTH[0])),
    "results in another order": ("bad_tool_results", turn(*reversed(BOTH))),
    "one result too many": ("bad_tool_results", turn(*BOTH, result("b", "y"))),
    "result of another call": ("bad_tool_results", turn(BOTH[0], result("c", "y"))),
    "text beside results": ("bad_tool_results", turn(*BOTH, model.Part(text="x"))),
    "empty result": ("bad_tool_results", turn(BOTH[0], result("b"))),
    "empty part in a result": (
        "empty_part",
        turn(BOTH[0], model.Part(tool_result={"tool_call_id": "b", "content": [model.Part()]})),
    ),
    "result in a result": (
        "bad_tool_results",
        turn(BOTH[0], model.Part(tool_result={"tool_call_id": "b", "content": [result("c", "x")]})),
    ),
    "audio in a result": (
        "bad_tool_results",
        turn(
            BOTH[0],
            model.Part(
                tool_result={"tool_call_id": "b", "content": [model.Part(audio=model.Audio(data=b"x"))]},
            ),
        ),
    ),
    "empty image in a result": ("bad_image", turn(BOTH[0], result("b", b""))),
    "user's result": ("misplaced_tool_result", request(user("x"), model.Message(role=model.ROLE_USER, parts=BOTH))),
    "user's call": ("misplaced_tool_call", request(ASKS_ITSELF)),
    "call without id": ("bad_tool_call", turn(result("", "x"), answer=called(""))),
    "id twice": ("bad_tool_call", turn(*BOTH, answer=called("a", "a"))),
    "id of before": (
        "bad_tool_call",
        request(user("x"), called("a"), results(BOTH[0]), called("a"), results(BOTH[0])),
    ),
    "long arguments": (
        "bad_tool_call",
        turn(BOTH[0], answer=called("a", arguments=" " * 1_048_577)),
    ),
    "calls without results": ("no_tool_results", request(user("x"), called("a"), user("y"))),
    "calls at the end": ("bad_answer_prefix", request(user("x"), called("a"), tools=())),
    "reasoning of tools": (
        "reasoning_not_last",
        request(user("x"), called("a"), model.Message(role=model.ROLE_TOOL, parts=BOTH[:1], reasoning="z")),
    ),
    "opaque without calls": (
        "misplaced_opaque",
        request(user("x"), model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="x")], opaque=b"x"), user()),
    ),
    "large opaque": ("opaque_too_large", turn(*BOTH, answer=called("a", "b", opaque=b"x" * 4_194_305))),
}
INVALID["opaque without calls"][1].messages[2].parts.add(text="y")


async def test_invalid_requests_never_reach_the_model_alone_or_in_a_batch(served: Any) -> None:
    backend = Recorder()
    async with served(backend) as server:
        for name, (reason, sent) in INVALID.items():
            assert await refusal(server.send(sent)) == ("INVALID_ARGUMENT", reason), name
        good = model.BatchCall(generate=turn(*BOTH))
        batch = model.BatchRequest(calls=[good, *(model.BatchCall(generate=sent) for _, sent in INVALID.values())])
        answers = {}
        async for response in call_stream(server.stub.Batch, batch, timeout=60):
            answers |= {entry.index: entry for entry in response.results}
        assert answers.pop(0).HasField("generate")
        assert {entry.status.code for entry in answers.values()} == {3}
        assert len(answers) == len(INVALID)
        assert len(backend.seen) == 1


async def test_what_the_model_does_not_take_is_unimplemented(served: Any, picture: Callable[..., bytes]) -> None:
    backend = Recorder(without=model.CAPABILITY_TOOLS)
    async with served(backend) as server:
        for sent in (
            request(),
            request(user("x"), called("a"), results(BOTH[0]), tools=()),
            request(user("x"), results(*BOTH), tools=()),
        ):
            assert await refusal(server.send(sent)) == ("UNIMPLEMENTED", "no_tools")
        assert not backend.seen
    backend = Recorder(without=model.CAPABILITY_IMAGE_INPUT)
    async with served(backend) as server:
        shown = turn(BOTH[0], result("b", "y", picture()))
        assert await refusal(server.send(shown)) == ("UNIMPLEMENTED", "no_image_input")
        future = request(tool_choice=model.ToolChoice.FromString(b"\x9a\x06\x03\x0a\x01x"))
        assert await refusal(server.send(future)) == ("UNIMPLEMENTED", "unknown_tool_choice")
        mode: Any = 77
        assert await refusal(server.send(request(tool_choice=model.ToolChoice(mode=mode)))) == (
            "UNIMPLEMENTED",
            "unknown_tool_choice",
        )
    backend = Recorder()
    backend.images = model.TOOL_IMAGES_REFUSED
    async with served(backend) as server:
        assert await refusal(server.send(shown)) == ("UNIMPLEMENTED", "no_tool_images")
        await server.send(turn(*BOTH))


async def test_good_requests_reach_the_model_as_they_are(served: Any, picture: Callable[..., bytes]) -> None:
    backend = Recorder()
    data = picture()
    digest = hashlib.sha256(data).digest()
    async with served(backend) as server:
        hashed = turn(BOTH[0], result("b", "y", data), answer=called("a", "b", reasoning="hm", opaque=b"\0signed"))
        hashed.messages[2].parts[1].tool_result.content[1].image.sha256 = digest
        await server.send(hashed)
        assert backend.seen[-1] == hashed
        by_hash = model.GenerateRequest()
        by_hash.CopyFrom(hashed)
        by_hash.messages[2].parts[1].tool_result.content[1].image.data = b""
        await server.send(by_hash)
        assert backend.seen[-1] == hashed  # its bytes are put in again
        by_hash.messages[2].parts[1].tool_result.content[1].image.sha256 = hashlib.sha256(b"other").digest()
        assert await refusal(server.send(by_hash)) == ("NOT_FOUND", "media_not_held")
        for good in (
            request(tools=many(128), parallel_tool_calls=False),
            request(tools=[tool(schema="", description="")], tool_choice=model.ToolChoice(name="zoom")),
            request(
                user("x"), called("a", arguments="not JSON", name="no such"), results(result("a", "", is_error=True))
            ),
        ):
            backend.answer = model.GenerateResponse(parts=called("c").parts)
            await server.send(good)
            assert backend.seen[-1] == good


async def test_calls_get_ids_that_depend_on_the_request_alone(served: Any) -> None:
    backend = Recorder(model.Part(text="Look."), *called("", "a", "", "a").parts, opaque=b"x")
    async with served(backend) as server:
        for _ in range(2):
            reply = await server.send(turn(*BOTH))
            ids = [part.tool_call.id for part in reply.parts[1:]]
            assert ids == ["call_2", "call_3", "call_4", "call_5"]
            assert reply.parts[1].tool_call.arguments == ARGUMENTS
            assert (reply.finish_reason, reply.opaque) == (model.FINISH_REASON_TOOL_CALLS, b"x")
        samples = await server.send(request(samples=2))
        assert [len(sample.output.parts) for sample in samples.samples] == [5, 5]
        reply = await server.send(request(tools=()))  # the model's own tools, which nobody calls
        assert [part.text for part in reply.parts] == ["Look."]
        assert (reply.finish_reason, reply.opaque) == (model.FINISH_REASON_TOOL_CALLS, b"")


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        (called("").parts, {"tool_choice": NONE}),
        ([model.Part(text="x")], {"tool_choice": REQUIRED}),
        ([model.Part(text="x")], {"tool_choice": model.ToolChoice(name="zoom")}),
        (called("", name="crop").parts, {"tool_choice": model.ToolChoice(name="zoom")}),
        (called("", "").parts, {"parallel_tool_calls": False}),
    ],
)
async def test_a_choice_that_is_not_kept_is_a_failure_of_the_server(
    served: Any, answer: list[model.Part], fields: dict[str, Any]
) -> None:
    async with served(Recorder(*answer)) as server:
        assert await refusal(server.send(request(**fields))) == ("INTERNAL", "tool_choice_not_kept")
        assert await refusal(server.send(request(samples=2, **fields))) == ("INTERNAL", "tool_choice_not_kept")
