"""Checks of tools, calls and results in requests, and of the calls in answers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, InvalidRequest, Unsupported
from model_server.parts import calls
from model_server.refusals import Info, check_count, require

MAX_TOOLS = 128
"""Tools of a request, and the other bounds of the contract, in bytes:"""
MAX_DESCRIPTION = 16_384
MAX_SCHEMA = 65_536
MAX_ARGUMENTS = 1_048_576
MAX_OPAQUE = 4_194_304

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_UNFINISHED = (model.FINISH_REASON_MAX_TOKENS, model.FINISH_REASON_CONTENT_FILTER)


def check_tools(request: model.GenerateRequest, info: Info) -> None:
    """Makes sure that a request's tools are good and that the model takes tools.

    Raises:
        InvalidRequest: No server could answer it.
        Unsupported: The model takes no tools, or the choice is newer than this server.
    """
    if not request.tools:
        for name in ("tool_choice", "parallel_tool_calls"):
            if request.HasField(name):
                raise InvalidRequest("no_tools_to_choose", f"{name} is set without tools: send tools or leave it out")
        return
    _require_tools(info)
    _check_beside(request)
    check_count("too_many_tools", "tools", len(request.tools), MAX_TOOLS)
    names: set[str] = set()
    for index, tool in enumerate(request.tools):
        _check_tool(tool, f"tool {index}")
        if tool.name in names:
            raise InvalidRequest("bad_tool", f"tool {index}: its name {tool.name!r} stands there twice")
        names.add(tool.name)
    if request.HasField("tool_choice"):
        _check_choice(request.tool_choice, names)


def _require_tools(info: Info) -> None:
    require(info, model.CAPABILITY_TOOLS, "no_tools", "calls no tools: send neither tools nor their calls and results")


def _check_beside(request: model.GenerateRequest) -> None:
    beside = {
        "a raw_prompt": request.HasField("raw_prompt"),
        "a response_format": request.config.HasField("response_format"),
        "MODALITY_IMAGE": request.modality == model.MODALITY_IMAGE,
        "the beginning of an answer": bool(request.messages) and request.messages[-1].role == model.ROLE_ASSISTANT,
    }
    for conflict, there in beside.items():
        if there:
            raise InvalidRequest("tools_conflict", f"tools beside {conflict}: leave one of them out")


def _check_tool(tool: model.Tool, where: str) -> None:
    if not _NAME.fullmatch(tool.name):
        raise InvalidRequest("bad_tool", f"{where}: its name is not 1 to 64 of a-z, A-Z, 0-9, _ and -")
    for name, limit in (("description", MAX_DESCRIPTION), ("input_schema", MAX_SCHEMA)):
        size = len(getattr(tool, name).encode())
        check_count("bad_tool", f"bytes of the {name} of {where}", size, limit)
    if tool.input_schema and not isinstance(_json(tool.input_schema), dict):
        raise InvalidRequest("bad_tool", f"{where}: its input_schema is not a JSON object")


def _json(text: str) -> Any:
    """Returns the value of JSON text; None where it is not JSON."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _check_choice(choice: model.ToolChoice, names: set[str]) -> None:
    kind = choice.WhichOneof("kind")
    if kind is None and len(UnknownFieldSet(choice)):
        raise Unsupported("unknown_tool_choice", "tool_choice is of a kind that this server does not know")
    if kind is None:
        raise InvalidRequest("bad_tool_choice", "tool_choice has neither mode nor name: set one, or leave it out")
    if kind == "name" and choice.name not in names:
        raise InvalidRequest("bad_tool_choice", f"tool_choice names {choice.name[:64]!r}, which is not among the tools")
    if kind == "mode" and choice.mode not in model.ToolChoiceMode.values():
        raise Unsupported("unknown_tool_choice", f"mode {choice.mode} of tool_choice is not known to this server")


def check_turns(messages: Sequence[model.Message], info: Info) -> None:
    """Makes sure that calls, results and reasoning stand where they belong.

    Raises:
        InvalidRequest: One of them does not.
        Unsupported: The model takes no tools, or no images in their results.
    """
    known: set[str] = set()
    pending: list[str] = []
    for index, message in enumerate(messages):
        where = f"message {index}"
        if message.role == model.ROLE_TOOL:
            _check_results(message, pending, where, info)
            pending = []
            continue
        if pending:
            raise InvalidRequest("no_tool_results", f"{where} is not the tools', and the message before it has calls")
        if any(part.HasField("tool_result") for part in message.parts):
            raise InvalidRequest("misplaced_tool_result", f"{where} has a tool result, and is not the tools'")
        pending = _checked_calls(message, known, where, info)
        last = index == len(messages) - 1
        if message.reasoning and not pending and not (last and message.role == model.ROLE_ASSISTANT):
            problem = f"{where} has reasoning, and neither tool calls nor an answer to be continued"
            raise InvalidRequest("reasoning_not_last", problem)
        if message.opaque and not pending:
            raise InvalidRequest("misplaced_opaque", f"{where} has opaque reasoning, and no tool calls")
        check_count("opaque_too_large", f"bytes of opaque reasoning in {where}", len(message.opaque), MAX_OPAQUE)


def _checked_calls(message: model.Message, known: set[str], where: str, info: Info) -> list[str]:
    """Returns the ids of a message's calls, which are new."""
    new_calls = calls(message.parts)
    if not new_calls:
        return []
    _require_tools(info)
    if message.role != model.ROLE_ASSISTANT:
        raise InvalidRequest("misplaced_tool_call", f"{where} has a tool call, and is not the assistant's")
    for call in new_calls:
        if not call.id or call.id in known:
            raise InvalidRequest("bad_tool_call", f"{where}: the id of a tool call is empty, or stood there before")
        known.add(call.id)
        size = len(call.arguments.encode())
        check_count("bad_tool_call", f"bytes of arguments of a tool call in {where}", size, MAX_ARGUMENTS)
    return [call.id for call in new_calls]


def _check_results(message: model.Message, pending: Sequence[str], where: str, info: Info) -> None:
    _require_tools(info)
    if message.reasoning or message.opaque:
        raise InvalidRequest("reasoning_not_last", f"{where} is the tools', and has reasoning")
    if [part.WhichOneof("kind") for part in message.parts] != ["tool_result"] * len(message.parts):
        raise InvalidRequest("bad_tool_results", f"{where} is the tools', and holds other parts than results")
    if not pending or [part.tool_result.tool_call_id for part in message.parts] != list(pending):
        problem = f"{where} has not one result for each call of the message before it, in their order"
        raise InvalidRequest("bad_tool_results", problem)
    for part in message.parts:
        if not part.tool_result.content:
            raise InvalidRequest("bad_tool_results", f"{where} has a result without content")
        for piece in part.tool_result.content:
            if piece.WhichOneof("kind") not in ("text", "image"):
                raise InvalidRequest("bad_tool_results", f"{where} has a result that is neither text nor image")
            if piece.HasField("image") and info.tool_rendering.images == model.TOOL_IMAGES_REFUSED:
                problem = f"{info.model_name} takes no images in the results of tools: send texts"
                raise Unsupported("no_tool_images", problem)


def settle(request: model.GenerateRequest, response: model.GenerateResponse) -> None:
    """Completes the calls of one output: replaces missing and duplicate ids, and sets the finish reason.

    Calls of tools that the request does not offer are left out.

    Raises:
        InternalFailure: If the model did not keep to the choice of tools.
    """
    new_calls = calls(response.parts)
    if new_calls and not request.tools:
        kept = [part for part in response.parts if not part.HasField("tool_call")]
        del response.parts[:]
        response.parts.extend(kept)
        response.finish_reason, new_calls = model.FINISH_REASON_TOOL_CALLS, []
    if not new_calls:
        response.ClearField("opaque")
    _check_choice_kept(request, new_calls, response.finish_reason)
    if not new_calls:
        return
    if len(response.opaque) > MAX_OPAQUE or any(len(call.arguments.encode()) > MAX_ARGUMENTS for call in new_calls):
        raise InternalFailure("call_too_large", "the model's tool call is larger than the contract allows")
    taken = {call.id for message in request.messages for call in calls(message.parts)}
    number = len(taken)
    for call in new_calls:
        while not call.id or call.id in taken:
            call.id, number = f"call_{number}", number + 1
        taken.add(call.id)
    if response.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE:
        response.finish_reason = model.FINISH_REASON_TOOL_CALLS


def _check_choice_kept(
    request: model.GenerateRequest, new_calls: Sequence[model.ToolCall], finish: model.FinishReason.ValueType
) -> None:
    choice, broken = request.tool_choice, ""
    if choice.mode == model.TOOL_CHOICE_MODE_NONE and new_calls:
        broken = "called a tool, which tool_choice forbids"
    needs = choice.mode == model.TOOL_CHOICE_MODE_REQUIRED or choice.HasField("name")
    if needs and not new_calls and finish not in _UNFINISHED:
        broken = "called no tool, which tool_choice asks for"
    if choice.HasField("name") and any(call.name != choice.name for call in new_calls):
        broken = f"called another tool than {choice.name!r}, which tool_choice names"
    if request.HasField("parallel_tool_calls") and not request.parallel_tool_calls and len(new_calls) > 1:
        broken = "made several calls, which parallel_tool_calls forbids"
    if broken:
        raise InternalFailure("tool_choice_not_kept", f"the model {broken}")
