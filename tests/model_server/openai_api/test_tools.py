"""Tools behind an endpoint of the client library's own types, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from helpers.model_serving import refusal
from helpers.openai_endpoint import Endpoint, backend, error
from helpers.tool_turns import ARGUMENTS, SCHEMA, called, result, results, tool, user
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from lyncean.model.v1 import model_pb2 as model

REQUEST: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsNonStreaming)
DROPS = {"tools": ("tools",), "tool calls": ("tool_calls",), "tool results": ("tool",)}


def reply(calls: list[dict[str, Any]] | None = None, text: str | None = None, tokens: int = 9, **more: Any) -> Any:
    """Returns a completion that the client library's own types accept."""
    message = {"role": "assistant", "content": text, "refusal": None, **more.pop("message", {})}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
    usage = {"prompt_tokens": tokens, "completion_tokens": 3, "total_tokens": tokens + 3}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice | more]}
    ChatCompletion.model_validate(body | {"usage": usage})
    return body | {"usage": usage}


def call(id_: str = "c1", name: str = "zoom", arguments: str = ARGUMENTS, **more: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


class Vendor:
    """An endpoint that counts the words of what its template shows; it may drop some."""

    def __init__(self, endpoint: Endpoint, *drops: str) -> None:
        self.endpoint, self.drops = endpoint, drops
        self.requests: list[dict[str, Any]] = []
        self.probes = 0
        self.says: Any = reply(text="Here.")
        endpoint.answer = self.answer

    def answer(self, body: dict[str, Any]) -> Any:
        REQUEST.validate_python({name: value for name, value in body.items() if name != "stream"})
        if body.get("max_tokens") == 1:
            self.probes += 1
            return reply(text="", tokens=self.count(body))
        self.requests.append(body)
        return self.says(body) if callable(self.says) else self.says

    def count(self, body: dict[str, Any]) -> int:
        shown = [] if "tools" in self.drops else [body.get("tools") or ""]
        for message in body["messages"]:
            message = {name: value for name, value in message.items() if name not in self.drops}
            shown += [] if message["role"] in self.drops else [message]
        return len(json.dumps(shown).split())


def sent(*messages: model.Message, tools: Any = None, **fields: Any) -> model.GenerateRequest:
    return model.GenerateRequest(
        messages=messages or [user("Where?")], tools=[tool()] if tools is None else tools, **fields
    )


async def test_tools_go_out_and_calls_come_back(endpoint: Endpoint, served: Any, picture: Callable[..., bytes]) -> None:
    vendor = Vendor(endpoint)
    async with served(backend(endpoint)) as server:
        info = await server.info()
        assert model.CAPABILITY_TOOLS in info.capabilities
        assert info.tool_rendering.images == model.TOOL_IMAGES_IN_USER_MESSAGE

        vendor.says = reply([call(), call("c2", arguments="no JSON")], text="I look.")
        first = await server.send(sent(parallel_tool_calls=True, tool_choice=model.ToolChoice(name="zoom")))
        body = vendor.requests[-1]
        function = {"name": "zoom", "description": "Cuts a box out of the image.", "parameters": json.loads(SCHEMA)}
        assert body["tools"] == [{"type": "function", "function": function}]
        assert list(body["tools"][0]["function"]["parameters"]["properties"]) == ["label", "bbox_2d"]
        assert (body["tool_choice"], body["parallel_tool_calls"]) == (
            {"type": "function", "function": {"name": "zoom"}},
            True,
        )
        assert [part.WhichOneof("kind") for part in first.parts] == ["text", "tool_call", "tool_call"]
        assert [part.tool_call.id for part in first.parts[1:]] == ["c1", "c2"]
        assert [part.tool_call.arguments for part in first.parts[1:]] == [ARGUMENTS, "no JSON"]
        assert first.finish_reason == model.FINISH_REASON_TOOL_CALLS

        vendor.says = reply(text="In the cup.")
        answer = model.Message(role=model.ROLE_ASSISTANT, parts=first.parts, reasoning="A plan.")
        data = picture()
        tool_results = results(result("c1", "a", data, "b"), result("c2", "no such box", is_error=True))
        second = await server.send(sent(user("Where?"), answer, tool_results))
        assert [part.text for part in second.parts] == ["In the cup."]
        question, assistant, one, two, images = vendor.requests[-1]["messages"]
        assert question == {"role": "user", "content": "Where?"}
        assert (assistant["content"], assistant["reasoning_content"]) == ("I look.", "A plan.")
        assert assistant["tool_calls"] == [call(), call("c2", arguments="no JSON")]
        texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        assert one == {"role": "tool", "tool_call_id": "c1", "content": texts}
        assert two == {"role": "tool", "tool_call_id": "c2", "content": "no such box"}
        assert [part["type"] for part in images["content"]] == ["image_url"]
        assert images["role"] == "user"
        assert vendor.probes == 5  # found out once


async def test_what_a_vendor_wants_back_is_opaque(endpoint: Endpoint, served: Any) -> None:
    vendor = Vendor(endpoint)
    signed = {"google": {"thought_signature": "c2lnbmVk"}}
    details = [{"type": "reasoning.encrypted", "data": "x" * 100}]
    async with served(backend(endpoint)) as server:
        both = [call(extra_content=signed), call("c2")]
        vendor.says = reply(both, message={"reasoning_details": details})
        first = await server.send(sent())
        assert first.opaque
        answer = model.Message(role=model.ROLE_ASSISTANT, parts=first.parts, opaque=first.opaque)
        vendor.says = reply(text="Here.")
        again = sent(user("Where?"), answer, results(result("c1", "a"), result("c2", "b")))
        reply_ = await server.send(again)
        assert not reply_.opaque
        message = vendor.requests[-1]["messages"][1]
        assert (message["tool_calls"], message["reasoning_details"]) == (both, details)
        for broken in (b"\xff", b"[]", b'{"extra_content": 3}', b"[" * 100_000):
            again.messages[1].opaque = broken
            assert await refusal(server.send(again)) == ("INVALID_ARGUMENT", "bad_opaque")
        vendor.says = reply([call()], message={"reasoning_details": ["x" * 4_200_000]})
        assert await refusal(server.send(sent())) == ("INTERNAL", "opaque_too_large")


@pytest.mark.parametrize("case", DROPS)
async def test_an_endpoint_that_drops_tools_is_refused(case: str, endpoint: Endpoint, served: Any) -> None:
    vendor = Vendor(endpoint, *DROPS[case])
    async with served(backend(endpoint)) as server:
        for _ in range(2):
            assert await refusal(server.send(sent())) == ("UNIMPLEMENTED", "no_tools")
        assert (vendor.probes, vendor.requests) == (5, [])
        assert (await server.send(sent(tools=[]))).parts[0].text == "Here."


async def test_an_endpoint_that_refuses_tools_or_counts_nothing(endpoint: Endpoint, served: Any) -> None:
    vendor = Vendor(endpoint)
    busy = [True]

    def refuses(body: dict[str, Any]) -> web.Response | dict[str, Any]:
        if busy.pop() if busy else False:
            return error(429, "busy")
        return (
            error(400, '"auto" tool choice requires --tool-call-parser') if body.get("tools") else vendor.answer(body)
        )

    endpoint.answer = refuses
    async with served(backend(endpoint, retries=0)) as server:
        assert await refusal(server.send(sent())) == ("RESOURCE_EXHAUSTED", "endpoint_busy")
        assert await refusal(server.send(sent())) == ("UNIMPLEMENTED", "no_tools")
    endpoint.answer = lambda body: (
        reply([call()], tokens=0) if body.get("max_tokens") != 1 else reply(text="", tokens=0)
    )
    async with served(backend(endpoint)) as server:
        assert (await server.send(sent())).parts[0].tool_call.id == "c1"


async def test_calls_that_are_odd(endpoint: Endpoint, served: Any) -> None:
    vendor = Vendor(endpoint)
    async with served(backend(endpoint)) as server:
        odd = reply([call("")])
        odd["choices"][0]["finish_reason"] = "stop"
        odd["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = {"a": 1}
        vendor.says = odd
        got = await server.send(sent())
        assert (got.parts[0].tool_call.id, got.parts[0].tool_call.arguments) == ("call_0", '{"a": 1}')
        assert got.finish_reason == model.FINISH_REASON_TOOL_CALLS
        builtin = await server.send(sent(tools=[]))  # the endpoint's own tool, which nobody calls
        assert ([part.text for part in builtin.parts], builtin.finish_reason) == ([""], model.FINISH_REASON_TOOL_CALLS)
        vendor.says = reply(text="Here.", finish_reason="tool_calls")
        assert (await server.send(sent())).finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
        for broken in ({"id": "x", "type": "custom"}, {"id": 3, "type": "function", "function": {"name": 3}}):
            body = reply([call()])
            body["choices"][0]["message"]["tool_calls"] = [broken]
            vendor.says = body
            assert await refusal(server.send(sent())) == ("INTERNAL", "bad_reply")
        vendor.says = reply([call()])
        none = sent(tool_choice=model.ToolChoice(mode=model.TOOL_CHOICE_MODE_NONE))
        assert await refusal(server.send(none)) == ("INTERNAL", "tool_choice_not_kept")
        assert vendor.requests[-1]["tool_choice"] == "none"
        taken = sent(config=model.GenerationConfig(extra_body={"tool_choice": "auto"}), tool_choice=none.tool_choice)
        assert await refusal(server.send(taken)) == ("INVALID_ARGUMENT", "field_not_extra")


async def test_engines_get_arguments_as_json(endpoint: Endpoint, served: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    vendor = Vendor(endpoint)
    async with served(backend(endpoint)) as server:
        answer = called("a", "b", arguments="{no: JSON")
        answer.parts[1].tool_call.arguments = ARGUMENTS
        await server.send(sent(user("x"), answer, results(result("a", "y"), result("b", "z"))))
        calls = vendor.requests[-1]["messages"][1]["tool_calls"]
        assert [entry["function"]["arguments"] for entry in calls] == [json.dumps("{no: JSON"), ARGUMENTS]
