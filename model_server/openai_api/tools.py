"""Tools in an endpoint's chat completions: offers them, reads their calls, and keeps reasoning to send back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, InvalidRequest, Unsupported
from model_server.openai_api.response_tools import ITEMS, is_item_list
from model_server.parts import calls
from model_server.tool_checks import MAX_OPAQUE

_MODES = {
    model.TOOL_CHOICE_MODE_UNSPECIFIED: "auto",
    model.TOOL_CHOICE_MODE_AUTO: "auto",
    model.TOOL_CHOICE_MODE_NONE: "none",
    model.TOOL_CHOICE_MODE_REQUIRED: "required",
}
_MESSAGE, _CALL = ("reasoning_details", "thinking_blocks"), "extra_content"
"""Fields of signed or encrypted reasoning: OpenRouter and litellm put it in the message, Gemini beside each call."""


def offered(request: model.GenerateRequest) -> dict[str, Any]:
    """Returns the fields of a request that offer tools; an empty dictionary if it offers none."""
    if not request.tools:
        return {}
    fields: dict[str, Any] = {"tools": [_function(tool) for tool in request.tools]}
    choice = request.tool_choice
    if choice.HasField("name"):
        fields["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    elif request.HasField("tool_choice"):
        fields["tool_choice"] = _MODES[choice.mode]
    if request.HasField("parallel_tool_calls"):
        fields["parallel_tool_calls"] = request.parallel_tool_calls
    return fields


def _function(tool: model.Tool) -> dict[str, Any]:
    schema = json.loads(tool.input_schema or '{"type": "object", "properties": {}}')
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}


def rendering(kind: str, api: str) -> model.ToolRendering:
    """Returns the rendering of images and reasoning; chat completions do not tell whether reasoning is read."""
    if api == "responses":
        return model.ToolRendering(images=model.TOOL_IMAGES_IN_RESULT, reasoning_kept=kind == "openai")
    return model.ToolRendering(images=model.TOOL_IMAGES_IN_USER_MESSAGE)


def called(message: model.Message, json_alone: bool) -> dict[str, Any]:
    """Returns the fields of an assistant's message with calls; an empty dictionary without calls.

    Args:
        message: The message.
        json_alone: Whether the endpoint reads arguments as JSON, and refuses others: vLLM and SGLang.

    Raises:
        InvalidRequest: The opaque reasoning to send back does not come from this server.
    """
    tool_calls = calls(message.parts)
    if not tool_calls:
        return {}
    entries = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": _arguments(call.arguments, json_alone)},
        }
        for call in tool_calls
    ]
    fields: dict[str, Any] = {"tool_calls": entries}
    if message.opaque:
        kept = _returned(message.opaque)
        fields |= {name: kept[name] for name in (*_MESSAGE, ITEMS) if name in kept}
        for entry, extra in zip(entries, kept.get(_CALL) or (), strict=False):
            entry |= {_CALL: extra} if extra is not None else {}
    return fields


def _arguments(text: str, json_alone: bool) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text) if json_alone else text  # as a JSON string, which most templates print unchanged
    return text


def _returned(opaque: bytes) -> dict[str, Any]:
    try:
        kept = json.loads(opaque)
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict) or not isinstance(kept.get(_CALL, []), list) or not is_item_list(kept.get(ITEMS, [])):
        raise InvalidRequest("bad_opaque", "the opaque reasoning of a message is not what this server has sent")
    return kept


def add_calls(response: model.GenerateResponse, message: Any) -> None:
    """Adds the calls of a chat completion, and the reasoning that its vendor requires back with them.

    Raises:
        InternalFailure: If that reasoning is too large.
        TypeError: If a call cannot be read.
    """
    tool_calls = getattr(message, "tool_calls", None) or []
    for tool_call in tool_calls:
        arguments = tool_call.function.arguments
        if not isinstance(arguments, str):  # some send the object itself, and None for no arguments
            arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        call = model.ToolCall(id=tool_call.id or "", name=tool_call.function.name, arguments=arguments or "{}")
        response.parts.add(tool_call=call)
    extras = [getattr(tool_call, _CALL, None) for tool_call in tool_calls]
    kept: dict[str, Any] = {_CALL: extras} if any(extra is not None for extra in extras) else {}
    kept |= {name: details for name in _MESSAGE if tool_calls and (details := getattr(message, name, None))}
    if kept:
        response.opaque = json.dumps(kept).encode()
        if len(response.opaque) > MAX_OPAQUE:
            raise InternalFailure("opaque_too_large", f"the endpoint's reasoning is larger than {MAX_OPAQUE:,} bytes")


Count = Callable[[list[dict[str, Any]], Mapping[str, Any]], Awaitable[int]]
"""Returns the tokens of a conversation with further fields as the endpoint counts them; 0 if it does not count."""
_ENOUGH = 10
_SHORT, _LONG = "one", " ".join(["one two three four"] * 10)


class ToolProbe:
    """Finds out once whether an endpoint shows its model tools, calls and results, by the tokens that it counts.

    Templates silently drop fields that they do not know, and the answers look like any others.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._done = False
        self._refusal = ""

    async def check(self, count: Count) -> None:
        """Raises Unsupported if the endpoint refuses tools or drops them.

        Other failures, such as a busy endpoint, are raised as they are, and the next call probes again.

        Args:
            count: Sends a conversation to the endpoint, for one token.
        """
        async with self._lock:
            if not self._done:
                self._refusal = await self._look(count)
                self._done = True
        if self._refusal:
            raise Unsupported("no_tools", f"the endpoint {self._refusal}")

    async def _look(self, count: Count) -> str:
        tool = {"name": "look", "description": _SHORT, "parameters": {"type": "object", "properties": {}}}
        tools = {"tools": [{"type": "function", "function": tool}]}
        plain = await count([_QUESTION], {})
        try:
            offered = await count([_QUESTION], tools)
            both, calls, results = [
                await count(_round(arguments, result), tools)
                for arguments, result in ((_SHORT, _SHORT), (_LONG, _SHORT), (_SHORT, _LONG))
            ]
        except (InvalidRequest, Unsupported) as error:
            return f"refuses tools ({error}); vLLM needs --enable-auto-tool-choice and --tool-call-parser"
        if not all((plain, offered, both, calls, results)):
            return ""  # it does not count
        dropped = {
            "tools": offered <= plain,
            "tool calls": calls - both < _ENOUGH,
            "tool results": results - both < _ENOUGH,
        }
        names = [name for name, lost in dropped.items() if lost]
        return f"does not show its model {' and '.join(names)}, by the tokens that it counts" if names else ""


_QUESTION = {"role": "user", "content": "Hi"}


def _round(arguments: str, result: str) -> list[dict[str, Any]]:
    function = {"name": "look", "arguments": json.dumps({"word": arguments})}
    call = {"id": "call00000", "type": "function", "function": function}
    return [
        _QUESTION,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00000", "content": result},
    ]


def put_tools(fields: dict[str, Any], request: model.GenerateRequest) -> None:
    """Puts a request's tools into its fields; raises InvalidRequest for fields that extra_body sets too."""
    tools = offered(request)
    for name in tools:
        if name in fields["extra_body"]:
            raise InvalidRequest("field_not_extra", f"extra_body has {name!r} beside tools: leave it out")
    fields |= tools


Parts = Callable[[Sequence[model.Part]], list[dict[str, Any]]]


def results(message: model.Message, parts: Parts | None = None) -> tuple[list[dict[str, Any]], Sequence[model.Part]]:
    """Returns the tools' messages with their results, and the images that these cannot hold.

    Args:
        message: The message of the tools.
        parts: Converts parts of content, including images of results, for the endpoint; None puts only texts into
            results.
    """
    entries: list[dict[str, Any]] = []
    images: list[model.Part] = []
    for part in message.parts:
        if parts:
            listed = parts(part.tool_result.content)
            entries.append({"role": "tool", "tool_call_id": part.tool_result.tool_call_id, "content": listed})
            continue
        texts = [piece.text for piece in part.tool_result.content if not piece.HasField("image")]
        images += [piece for piece in part.tool_result.content if piece.HasField("image")]
        content: Any = [{"type": "text", "text": text} for text in texts] if len(texts) > 1 else "".join(texts)
        entries.append({"role": "tool", "tool_call_id": part.tool_result.tool_call_id, "content": content})
    return entries, images
