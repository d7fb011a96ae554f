"""Tools of chat completions in the contract's form, and calls back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from lyncean.model.v1 import model_pb2 as model
from lyncean_openai_front.errors import refuse

_MODES = {
    "auto": model.TOOL_CHOICE_MODE_AUTO,
    "none": model.TOOL_CHOICE_MODE_NONE,
    "required": model.TOOL_CHOICE_MODE_REQUIRED,
}
ENCRYPTED = "reasoning.encrypted"
"""OpenRouter's form for reasoning that is returned as it came."""


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: Literal[False] | None = None


class Tool(msgspec.Struct, forbid_unknown_fields=True):
    """A tool that the model may call."""

    type: Literal["function"]
    function: _Function


class _Name(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Choice(msgspec.Struct, forbid_unknown_fields=True):
    """The tool that the model is to call."""

    type: Literal["function"]
    function: _Name


class _Called(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str


class ToolCall(msgspec.Struct, forbid_unknown_fields=True):
    """A call that the model made."""

    id: str
    type: Literal["function"]
    function: _Called
    index: int | None = None


class Details(msgspec.Struct, forbid_unknown_fields=True):
    """Reasoning that is returned as it came."""

    type: Literal["reasoning.encrypted"]
    data: str


Mode = Literal["auto", "none", "required"]


def offer(
    request: model.GenerateRequest, tools: Sequence[Tool], choice: Mode | Choice | None, parallel: bool | None
) -> None:
    """Puts tools, their choice, and whether several may be called into a request."""
    for tool in tools:
        parameters = tool.function.parameters
        schema = "" if parameters is None else msgspec.json.encode(parameters).decode()
        request.tools.add(name=tool.function.name, description=tool.function.description or "", input_schema=schema)
    if isinstance(choice, Choice):
        request.tool_choice.name = choice.function.name
    elif choice is not None:
        request.tool_choice.mode = _MODES[choice]
    if parallel is not None:
        request.parallel_tool_calls = parallel


def add_calls(target: model.Message, calls: Sequence[ToolCall], details: Sequence[Details]) -> None:
    """Adds an assistant's calls to its message, and the reasoning that belongs to them."""
    for call in calls:
        tool_call = model.ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
        target.parts.add(tool_call=tool_call)
    try:
        target.opaque = b"".join(base64.b64decode(detail.data, validate=True) for detail in details)
    except (binascii.Error, ValueError):
        raise refuse("bad_field", "reasoning_details: the data are not what this server has sent") from None


def add_result(messages: Any, id_: str | None, add_content: Callable[[Any], None], where: str) -> None:
    """Adds a tool's message: to that of the tools, in the order of the calls before it.

    Args:
        messages: The conversation, which ends in an assistant's message or the tools'.
        id_: The call's.
        add_content: Adds the message's parts to a result.
        where: What to call the message in an error.

    Raises:
        CallError: INVALID_ARGUMENT for a message of no call.
    """
    if not id_:
        raise refuse("bad_field", f"{where}: a message of role tool needs a tool_call_id")
    if not messages or messages[-1].role != model.ROLE_TOOL:
        messages.add(role=model.ROLE_TOOL)
    add_content(messages[-1].parts.add(tool_result=model.ToolResult(tool_call_id=id_)).tool_result.content)
    if len(messages) > 1:
        order = {part.tool_call.id: index for index, part in enumerate(messages[-2].parts)}
        messages[-1].parts.sort(key=lambda part: order.get(part.tool_result.tool_call_id, -1))


def calls_of(answer: model.GenerateResponse) -> dict[str, Any]:
    """Returns the fields that a message has for its calls; none where there is none."""
    calls = [part.tool_call for part in answer.parts if part.HasField("tool_call")]
    if not calls:
        return {}
    fields: dict[str, Any] = {
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    }
    if answer.opaque:
        fields["reasoning_details"] = [{"type": ENCRYPTED, "data": base64.b64encode(answer.opaque).decode()}]
    return fields


def as_delta(message: dict[str, Any]) -> dict[str, Any]:
    """Returns a message as the only chunk of a stream: its calls are numbered."""
    if "tool_calls" not in message:
        return message
    return message | {"tool_calls": [{"index": index} | call for index, call in enumerate(message["tool_calls"])]}
