"""The Responses API: a request is a chat completion's, an answer a list of items; nothing is stored."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from lyncean.model.v1 import model_pb2 as model
from lyncean_openai_front import response_items
from lyncean_openai_front.answer import finished, token_entry, usage
from lyncean_openai_front.chat import MAX_PARTS
from lyncean_openai_front.errors import refuse
from lyncean_openai_front.forms import Chat, Effort, Sampling
from lyncean_openai_front.response_items import Item
from lyncean_openai_front.tools import calls_of
from lyncean_openai_front.words import words

_LOGPROBS = "message.output_text.logprobs"


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Named(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    name: str


class _Format(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text", "json_object", "json_schema"]
    schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    format: _Format | None = None
    verbosity: Literal["medium"] | None = None


class _Reasoning(msgspec.Struct, forbid_unknown_fields=True):
    effort: Effort | None = None
    summary: str | None = None
    generate_summary: str | None = None


class Responses(Sampling, forbid_unknown_fields=True, kw_only=True):
    """The fields of the Responses API that the contract can obey."""

    input: Any
    instructions: str | None = None
    max_output_tokens: int | None = None
    include: list[str] | None = None
    top_logprobs: int | None = None
    reasoning: _Reasoning | None = None
    text: _Text | None = None
    tools: list[_Function] | None = None
    tool_choice: Literal["auto", "none", "required"] | _Named | None = None
    parallel_tool_calls: bool | None = None


def as_chat(form: Responses) -> Chat:
    """Returns the chat completion that asks for the same.

    Raises:
        CallError: INVALID_ARGUMENT for a value that cannot be read.
    """
    fields = {name: value for name in Sampling.__struct_fields__ if (value := getattr(form, name)) is not None}
    logprobs = _LOGPROBS in (form.include or ()) or form.top_logprobs is not None
    more: dict[str, Any] = {
        "messages": _messages(form),
        "max_completion_tokens": form.max_output_tokens,
        "reasoning_effort": form.reasoning.effort if form.reasoning else None,
        "response_format": _format(form.text.format if form.text else None),
        "logprobs": logprobs or None,
        "top_logprobs": form.top_logprobs,
        "parallel_tool_calls": form.parallel_tool_calls,
    }
    if form.tools:
        more["tools"] = [{"type": "function", "function": _function(tool)} for tool in form.tools]
        choice = form.tool_choice
        named = {"type": "function", "function": {"name": choice.name}} if isinstance(choice, _Named) else choice
        more["tool_choice"] = named
    more = fields | {name: value for name, value in more.items() if value is not None}
    chat: Chat = _converted(msgspec.to_builtins(more), Chat)
    return chat


def _messages(form: Responses) -> list[dict[str, Any]]:
    before = [{"role": "system", "content": form.instructions}] if form.instructions else []
    if isinstance(form.input, str):
        return [*before, {"role": "user", "content": form.input}]
    if not isinstance(form.input, list):
        raise refuse("bad_field", "input: takes text or a list of items")
    if len(form.input) > MAX_PARTS:
        raise refuse("too_many_parts", f"{len(form.input):,} items: at most {MAX_PARTS:,}")
    typed = [
        item if not isinstance(item, dict) or "type" in item else {"type": "message", **item} for item in form.input
    ]
    items = _converted(typed, list[Item], "input")
    return [*before, *response_items.messages(items)]


def _converted(value: Any, kind: Any, where: str = "") -> Any:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise refuse("bad_field", where + words(error)) from None


def _function(tool: _Function) -> dict[str, Any]:
    if tool.strict:
        raise refuse("bad_field", f"tools: {tool.name}: this server holds no arguments to a schema: strict is false")
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _format(form: _Format | None) -> dict[str, Any] | None:
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return {"type": "json_object"}
    if form.schema is None:
        raise refuse("bad_field", "text.format: the field 'schema' is missing")
    return {"type": "json_schema", "json_schema": {"name": form.name, "schema": form.schema}}


def response(form: Responses, answer: model.GenerateResponse) -> dict[str, Any]:
    """Returns the response of an answer.

    Raises:
        CallError: INTERNAL for an answer that is not a finished text.
    """
    text, finish = finished(answer, ("text", "tool_call"))
    cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    status = "incomplete" if cut else "completed"
    calls = calls_of(answer)
    output = list(_items(form, answer, text, status, calls))
    spent = usage([answer])
    fields = msgspec.to_builtins(form)
    return {
        "id": _id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "model": form.model,
        "output": output,
        "error": None,
        "incomplete_details": {"reason": cut} if cut else None,
        "instructions": form.instructions,
        "max_output_tokens": form.max_output_tokens,
        "parallel_tool_calls": form.parallel_tool_calls is not False,
        "previous_response_id": None,
        "reasoning": fields["reasoning"] or {"effort": None, "summary": None},
        "store": False,
        "temperature": form.temperature,
        "text": fields["text"] or {"format": {"type": "text"}},
        "tool_choice": fields["tool_choice"] or "auto",
        "tools": fields["tools"] or [],
        "top_p": form.top_p,
        "truncation": "disabled",
        "metadata": {},
        "usage": {
            "input_tokens": spent["prompt_tokens"],
            "input_tokens_details": {"cache_write_tokens": 0, **spent["prompt_tokens_details"]},
            "output_tokens": spent["completion_tokens"],
            "output_tokens_details": spent["completion_tokens_details"],
            "total_tokens": spent["total_tokens"],
        },
    }


def _items(
    form: Responses, answer: model.GenerateResponse, text: str, status: str, calls: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    signed = [detail["data"] for detail in calls.get("reasoning_details", ())]
    if answer.reasoning or signed:
        thoughts = [{"type": "reasoning_text", "text": answer.reasoning}] if answer.reasoning else []
        item = {"id": _id("rs"), "type": "reasoning", "summary": [], "content": thoughts}
        yield item | ({"encrypted_content": signed[0]} if signed else {})
    if text or not calls:
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        part["logprobs"] = [token_entry(token, form.top_logprobs or 0) for token in answer.logprobs]
        yield {"id": _id("msg"), "type": "message", "role": "assistant", "status": status, "content": [part]}
    for call in calls.get("tool_calls", ()):
        yield {
            "id": _id("fc"),
            "type": "function_call",
            "status": "completed",
            "call_id": call["id"],
            **call["function"],
        }


def _id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"


def events(form: Responses, response: dict[str, Any]) -> list[bytes]:
    """Returns the response as server-sent events: one delta for each item, as ModelService does not stream."""
    return [
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), msgspec.json.encode({**event, "sequence_number": number}))
        for number, event in enumerate(_events(response))
    ]


def _events(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = response | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        at = {"output_index": index}
        empty: dict[str, Any] = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
        yield {"type": "response.output_item.added", **at, "item": item | empty | {"status": "in_progress"}}
        at |= {"item_id": item["id"]}
        if item["type"] == "function_call":
            of = "response.function_call_arguments"
            yield {"type": f"{of}.delta", **at, "delta": item["arguments"]}
            yield {"type": f"{of}.done", **at, "name": item["name"], "arguments": item["arguments"]}
        for number, part in enumerate(item.get("content", ())):
            yield from _part_events(at | {"content_index": number}, part)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _part_events(at: dict[str, Any], part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    more = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
    empty = part | {"text": ""} | ({"logprobs": []} if more else {})
    yield {"type": "response.content_part.added", **at, "part": empty}
    yield {"type": f"response.{part['type']}.delta", **at, "delta": part["text"], **more}
    yield {"type": f"response.{part['type']}.done", **at, "text": part["text"], **more}
    yield {"type": "response.content_part.done", **at, "part": part}
