"""Tools between the contract and an author's model."""

from __future__ import annotations

import json

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import Unsupported
from model_server.kit.model import Model, Output, Request
from model_server.parts import calls


def rendering(kit: Model) -> model.ToolRendering:
    """Returns what an author's model is shown of earlier calls."""
    images = model.TOOL_IMAGES_IN_RESULT if kit.image_input else model.TOOL_IMAGES_REFUSED
    return model.ToolRendering(images=images, reasoning_kept=kit.reasoning)


def check_choice(kit: Model, request: model.GenerateRequest) -> None:
    """Raises Unsupported for a tool choice that the author's model does not claim to obey."""
    choice = request.tool_choice
    decides = choice.mode in (model.TOOL_CHOICE_MODE_UNSPECIFIED, model.TOOL_CHOICE_MODE_AUTO)
    if not kit.tool_choices and (choice.HasField("name") or not decides):
        raise Unsupported("no_tool_choice", "this model decides itself whether to call tools: leave tool_choice unset")


def tool_text(work: Request) -> str:
    """Returns a prompt's tools and calls as text, to be counted."""
    tools = [f"{tool.name} {tool.description} {tool.input_schema}" for tool in work.tools]
    earlier_calls = calls(part for message in work.messages for part in message.parts)
    return " ".join([*tools, *(f"{call.name} {call.arguments}" for call in earlier_calls)])


def written(output: Output) -> str:
    """Returns the calls of an output as text, to be counted."""
    return " ".join(f"{name} {_text(arguments)}" for name, arguments in output.tool_calls)


def add_calls(response: model.GenerateResponse, output: Output) -> None:
    """Adds the calls of an output; the core gives them ids and sees to the finish reason."""
    for name, arguments in output.tool_calls:
        response.parts.add(tool_call=model.ToolCall(name=name, arguments=_text(arguments)))
    if output.tool_calls:
        response.opaque = output.opaque


def _text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def keep_first(request: model.GenerateRequest, response: model.GenerateResponse) -> None:
    """Keeps only the first call if the request wants one at most: the output would end after it."""
    if not request.HasField("parallel_tool_calls") or request.parallel_tool_calls:
        return
    places = [index for index, part in enumerate(response.parts) if part.HasField("tool_call")]
    if places:
        del response.parts[places[0] + 1 :]
