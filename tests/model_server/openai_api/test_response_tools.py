"""Tools by the Responses API, over real HTTP, held against the client library's own types."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from helpers.model_serving import refusal
from helpers.openai_endpoint import Endpoint, backend, error
from helpers.tool_turns import ARGUMENTS, SCHEMA, called, result, results, tool, user
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from lyncean.model.v1 import model_pb2 as model

REQUEST: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsNonStreaming)


def thought(number: int) -> dict[str, Any]:
    return {
        "id": f"rs_{number}",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "I plan."}],
        "encrypted_content": f"gAAA{number}",
    }


def call(number: int) -> dict[str, Any]:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "call_id": f"call_x{number}",
        "name": "zoom",
        "arguments": ARGUMENTS,
        "status": "completed",
    }


def text_message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def reply(*output: dict[str, Any], tokens: int = 9) -> dict[str, Any]:
    body = {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": False,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "output": list(output),
        "usage": {
            "input_tokens": tokens,
            "output_tokens": 9,
            "total_tokens": tokens + 9,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 6},
        },
    }
    Response.model_validate(body)
    return body


def sent(*messages: model.Message, **fields: Any) -> model.GenerateRequest:
    return model.GenerateRequest(messages=messages or [user("Where?")], tools=[tool()], **fields)


class Vendor:
    """Counts the words of what it is sent; answers with given items."""

    def __init__(self, endpoint: Endpoint, *output: dict[str, Any]) -> None:
        self.output = output
        self.requests: list[dict[str, Any]] = []
        self.encrypts = True
        endpoint.answer = self.answer

    def answer(self, body: dict[str, Any]) -> Any:
        REQUEST.validate_python(body)
        if "include" in body and not self.encrypts:
            return error(400, "Encrypted content is not supported with this model.")
        if body.get("max_output_tokens") == 16:
            return reply(text_message(""), tokens=len(json.dumps([body["input"], body.get("tools")]).split()))
        self.requests.append(body)
        return reply(*self.output)


async def test_calls_results_with_images_and_encrypted_reasoning(
    endpoint: Endpoint, served: Any, picture: Callable[..., bytes]
) -> None:
    vendor = Vendor(endpoint, thought(1), text_message("I look."), call(1), thought(2), call(2))
    async with served(backend(endpoint, api="responses")) as server:
        info = await server.info()
        assert model.CAPABILITY_TOOLS in info.capabilities
        assert info.tool_rendering.images == model.TOOL_IMAGES_IN_RESULT
        first = await server.send(sent(tool_choice=model.ToolChoice(name="zoom"), parallel_tool_calls=True))
        body = vendor.requests[-1]
        (function,) = body["tools"]
        assert (function["name"], function["parameters"]) == ("zoom", json.loads(SCHEMA))
        assert (function["type"], function["strict"]) == ("function", False)
        assert (body["tool_choice"], body["parallel_tool_calls"]) == ({"type": "function", "name": "zoom"}, True)
        assert (body["include"], body["store"]) == (["reasoning.encrypted_content"], False)
        assert [part.WhichOneof("kind") for part in first.parts] == ["text", "tool_call", "tool_call"]
        assert [part.tool_call.id for part in first.parts[1:]] == ["call_x1", "call_x2"]
        assert first.finish_reason == model.FINISH_REASON_TOOL_CALLS

        vendor.output = (text_message("In the cup."),)
        again = called(opaque=first.opaque, reasoning=first.reasoning)
        again.parts.extend(first.parts)
        tool_results = results(result("call_x1", "one", picture()), result("call_x2", "two"))
        second = await server.send(sent(user("Where?"), again, tool_results))
        assert [part.text for part in second.parts] == ["In the cup."]
        items = vendor.requests[-1]["input"]
        kinds = [item.get("type") or item["role"] for item in items]
        rounds = ["reasoning", "assistant", "function_call", "reasoning", "function_call"]
        assert kinds == ["user", *rounds, "function_call_output", "function_call_output"]
        assert [item["encrypted_content"] for item in items if item.get("type") == "reasoning"] == ["gAAA1", "gAAA2"]
        assert [part["type"] for part in items[-2]["output"]] == ["input_text", "input_image"]
        assert (items[-2]["call_id"], items[-1]["call_id"]) == ("call_x1", "call_x2")
        again.opaque = b'{"reasoning_items": [1]}'
        resent = server.send(sent(user("Where?"), again, tool_results))
        assert await refusal(resent) == ("INVALID_ARGUMENT", "bad_opaque")


async def test_a_model_that_encrypts_nothing_is_asked_without(endpoint: Endpoint, served: Any) -> None:
    vendor = Vendor(endpoint, call(1))
    vendor.encrypts = False
    async with served(backend(endpoint, api="responses")) as server:
        for _ in range(2):
            reply_ = await server.send(sent())
            assert [part.tool_call.id for part in reply_.parts] == ["call_x1"]
            assert not reply_.opaque
    assert all("include" not in body for body in vendor.requests)
    assert sum("include" in body for body in endpoint.seen) == 1
