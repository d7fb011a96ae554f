"""Conversations by the Responses API: translates the fields of chat completions, and reads replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, InvalidRequest, Unsupported
from model_server.backend import Call
from model_server.openai_api import response_tools
from model_server.openai_api.client import ask
from model_server.openai_api.errors import short
from model_server.openai_api.upstream import note_origin

_CUT = {
    "max_output_tokens": model.FINISH_REASON_MAX_TOKENS,
    "content_filter": model.FINISH_REASON_CONTENT_FILTER,
}
_ELSEWHERE = ("messages", "seed", "stop", "response_format")
"""Fields of a chat completion that the Responses API names differently or lacks."""


def asked(fields: Mapping[str, Any], config: model.GenerationConfig) -> dict[str, Any]:
    """Returns a request's fields from those of a chat completion; nothing is stored at the vendor.

    Raises:
        Unsupported: For log-probabilities, or a clip.
    """
    if config.top_logprobs:
        raise Unsupported("no_logprobs", "the Responses API is not asked for log-probabilities: leave them unset")
    request: dict[str, Any] = {name: value for name, value in fields.items() if name not in _ELSEWHERE}
    if config.HasField("max_output_tokens"):
        request["max_output_tokens"] = config.max_output_tokens
    if form := fields.get("response_format"):
        request["text"] = {"format": {"type": "json_schema", **form["json_schema"]}}
    if "tools" in fields:
        request |= {"tools": response_tools.functions(fields["tools"]), "include": [response_tools.ENCRYPTED]}
    if "tool_choice" in fields:
        request["tool_choice"] = response_tools.choice(fields["tool_choice"])
    return request | {"input": [item for message in fields["messages"] for item in _items(message)], "store": False}


class ResponsesApi:
    """Sends requests by an endpoint's Responses API."""

    def __init__(self) -> None:
        self._encrypts = True

    async def send(
        self, create: Any, call: Call, timeout: float, fields: Mapping[str, Any], config: model.GenerationConfig
    ) -> Any:
        """Makes one request; stops requesting encrypted reasoning once a model refuses it.

        Args:
            create: The client's method.
            call: The call that waits.
            timeout: Seconds at most.
            fields: The request in the form of a chat completion.
            config: Its settings.

        Raises:
            StatusError: Any failure, mapped to the contract's statuses.
        """
        request = asked(fields, config)
        if self._encrypts:
            try:
                return await ask(create, call, timeout, **request)
            except InvalidRequest as error:
                if "include" not in request or "encrypted" not in str(error).lower():
                    raise
            self._encrypts = False
        request.pop("include", None)
        return await ask(create, call, timeout, **request)


def _items(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "tool" or "tool_calls" in message:
        return response_tools.items(message, _content)
    return [turn(message)]


def turn(message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message of a chat completion as an item of the input.

    Raises:
        Unsupported: For a part that is neither text nor an image.
    """
    text_type = "output_text" if message["role"] == "assistant" else "input_text"
    return {"role": message["role"], "content": _content(message["content"], text_type)}


def _content(content: Any, text_type: str) -> list[dict[str, Any]]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [_part(part, text_type) for part in parts]


def _part(part: Mapping[str, Any], text_type: str) -> dict[str, Any]:
    match part["type"]:
        case "text":
            return {"type": text_type, "text": part["text"]}
        case "image_url":
            return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
        case kind:
            raise Unsupported("no_clips", f"the Responses API takes no {kind}: use the chat API")


def read(reply: Any, add_image: Callable[[model.GenerateResponse, Any], None] | None = None) -> model.GenerateResponse:
    """Reads a reply: its text, the reasoning or its summary, the usage, and images if `add_image` is set.

    Raises:
        InternalFailure: If it failed or cannot be read.
    """
    try:
        return _read(reply, add_image)
    except (AttributeError, TypeError, ValueError) as error:
        raise InternalFailure("bad_reply", f"the endpoint's reply cannot be read: {error}") from error


def _read(reply: Any, add_image: Callable[[model.GenerateResponse, Any], None] | None) -> model.GenerateResponse:
    response = model.GenerateResponse(finish_reason=model.FINISH_REASON_END_OF_SEQUENCE)
    if reply.status == "incomplete":
        cause = getattr(reply.incomplete_details, "reason", None)
        if cause not in _CUT:
            raise InternalFailure(
                "bad_reply", f"the endpoint ended with {short(str(cause))!r}, which means nothing here"
            )
        response.finish_reason = _CUT[cause]
    elif reply.status != "completed":
        reason = getattr(reply.error, "message", None) or reply.status
        raise InternalFailure("bad_reply", f"the endpoint did not answer: {short(str(reason))}")
    for item in reply.output:
        if item.type == "image_generation_call" and add_image:
            add_image(response, item.result)
        if item.type == "reasoning":
            response.reasoning += "".join(part.text for part in item.summary or getattr(item, "content", None) or ())
        for part in item.content or () if item.type == "message" else ():
            if part.type == "refusal":
                response.finish_reason = model.FINISH_REASON_CONTENT_FILTER
            response.parts.add(text=part.refusal if part.type == "refusal" else part.text)
    response_tools.keep(response, reply.output)
    if reply.usage:
        _count(reply.usage, response.usage)
    note_origin(response.served_by, reply)
    return response


def _count(counts: Any, usage: model.Usage) -> None:
    usage.input_tokens, usage.output_tokens = counts.input_tokens or 0, counts.output_tokens or 0
    reasoned = getattr(getattr(counts, "output_tokens_details", None), "reasoning_tokens", None) or 0
    cached = getattr(getattr(counts, "input_tokens_details", None), "cached_tokens", None) or 0
    usage.reasoning_tokens, usage.cached_tokens = min(reasoned, usage.output_tokens), min(cached, usage.input_tokens)
