"""Tools through the HTTP front: the official client asks, a gRPC server answers with calls."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from helpers.model_serving import serve
from helpers.tool_turns import ARGUMENTS, SCHEMA, called, result, results, tool, user

from lyncean.model.v1 import model_pb2 as model
from model_server.backend import Backend, Call, describe

pytest.importorskip("uvicorn")
openai = pytest.importorskip("openai")

from helpers.http_front import front  # noqa: E402
from helpers.openai_endpoint import backend as openai_backend  # noqa: E402

TOOLS = [{"type": "function", "function": {"name": "zoom", "description": "Cuts.", "parameters": json.loads(SCHEMA)}}]
NAMES = [model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT, model.CAPABILITY_MULTI_IMAGE, model.CAPABILITY_TOOLS]


class Looker(Backend):
    """Calls tools twice, and answers once there are results; counts tokens as the words of what it was shown."""

    decodes = False

    def __init__(self) -> None:
        self.seen: list[model.GenerateRequest] = []

    def info(self) -> model.GetModelInfoResponse:
        rendering = model.ToolRendering(images=model.TOOL_IMAGES_IN_RESULT, reasoning_kept=True)
        return describe(dict.fromkeys(NAMES, True), model_name="m", max_concurrency=8, tool_rendering=rendering)

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        if request.config.max_output_tokens != 1:
            self.seen.append(request)
        response = model.GenerateResponse(finish_reason=model.FINISH_REASON_END_OF_SEQUENCE)
        response.usage.input_tokens = len(f"{request.messages} {request.tools}".split())
        if request.messages[-1].role == model.ROLE_TOOL or not request.tools:
            response.parts.add(text="In the cup.")
        else:
            response.parts.extend(called("", "", text="I look.").parts)
            response.opaque = b"\x00signed"
            response.reasoning = "A plan."
        return response


def client(port: int) -> Any:
    return openai.AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0)


async def test_the_official_client_plays_an_episode(served: Any, picture: Callable[..., bytes]) -> None:
    backend = Looker()
    async with served(backend) as server, front(server.channel) as port, client(port) as caller:
        conversation: list[Any] = [{"role": "user", "content": "Where?"}]
        fields: dict[str, Any] = {"model": "m", "tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": True}
        first = await caller.chat.completions.create(messages=conversation, **fields)
        (choice,) = first.choices
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", "I look.")
        assert [tool_call.function.arguments for tool_call in choice.message.tool_calls] == [ARGUMENTS, ARGUMENTS]
        request = backend.seen[0]
        assert json.loads(request.tools[0].input_schema) == json.loads(SCHEMA)
        assert (request.tools[0].name, request.tools[0].description) == ("zoom", "Cuts.")
        assert (request.tool_choice.mode, request.parallel_tool_calls) == (model.TOOL_CHOICE_MODE_AUTO, True)

        ids = [tool_call.id for tool_call in choice.message.tool_calls]
        url = f"data:image/png;base64,{base64.b64encode(picture()).decode()}"
        crop = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": url}}]
        conversation += [
            choice.message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": ids[1], "content": "two", "name": "zoom"},  # in any order
            {"role": "tool", "tool_call_id": ids[0], "content": crop},
        ]
        second = await caller.chat.completions.create(messages=conversation, **fields)
        assert second.choices[0].message.content == "In the cup."
        assistant, tool_message = backend.seen[1].messages[1:]
        assert (assistant.reasoning, assistant.opaque) == ("A plan.", b"\x00signed")
        assert [part.tool_call.id for part in assistant.parts[1:]] == ids
        assert [part.tool_result.tool_call_id for part in tool_message.parts] == ids
        assert tool_message.parts[0].tool_result.content[1].image.data == picture()

        stream = await caller.chat.completions.create(messages=conversation[:1], stream=True, **fields)
        deltas = [chunk.choices[0].delta async for chunk in stream if chunk.choices]
        calls = [call for delta in deltas for call in delta.tool_calls or ()]
        assert [(call.index, call.id) for call in calls] == list(enumerate(ids))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [TOOLS[0] | {"function": {"name": "a b"}}]}, "bad_tool"),
        ({"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}, "strict"),
        ({"tools": TOOLS * 2}, "bad_tool"),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "bad_tool_choice"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "y"}]}, "bad_tool_results"),
        (
            {"messages": [{"role": "user", "content": "x", "tool_calls": []}], "tools": "x"},
            "tools: takes a list, and got text",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [], "reasoning_details": [{"type": "reasoning.text"}]}]},
            "messages[0].reasoning_details[0].type",
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}, "tools_conflict"),
    ],
)
async def test_mistakes_with_tools_are_told(served: Any, change: dict[str, Any], word: str) -> None:
    backend = Looker()
    async with served(backend) as server, front(server.channel) as port, client(port) as caller:
        body = {"messages": [{"role": "user", "content": "x"}], "tools": TOOLS} | change
        with pytest.raises(openai.BadRequestError) as caught:
            await caller.chat.completions.create(model="m", extra_body=change, **{**body, "tools": TOOLS})
    assert word in f"{caught.value} {caught.value.code}"
    assert not backend.seen


async def test_tools_go_through_the_backend_the_front_and_a_server(served: Any, picture: Callable[..., bytes]) -> None:
    behind = Looker()
    async with served(behind) as server, front(server.channel) as port:

        class Address:
            url = f"http://127.0.0.1:{port}/v1"

        chain: Any = openai_backend(Address())  # type: ignore[arg-type]
        async with serve(chain) as proxy:
            request = model.GenerateRequest(messages=[user(picture(), "Where?")], tools=[tool()])
            first = await proxy.send(request)
            assert [part.WhichOneof("kind") for part in first.parts] == ["text", "tool_call", "tool_call"]
            assistant = model.Message(
                role=model.ROLE_ASSISTANT, parts=first.parts, reasoning=first.reasoning, opaque=first.opaque
            )
            ids = [part.tool_call.id for part in first.parts[1:]]
            tool_message = results(result(ids[0], "one", picture(2)), result(ids[1], "two"))
            second = await proxy.send(
                model.GenerateRequest(messages=[user("Where?"), assistant, tool_message], tools=[tool()])
            )
            # Chat completions take the image in a user's message, which this server answers with further calls.
            assert second.finish_reason == model.FINISH_REASON_TOOL_CALLS
            last = behind.seen[-1].messages
            assert [message.role for message in last] == [2, 3, 4, 2]
            assert (last[1].opaque, last[1].reasoning) == (b"\x00signed", "A plan.")
            assert last[3].parts[0].image.data == picture(2)
