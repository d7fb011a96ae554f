"""Tools, calls and results in the contract's form."""

from __future__ import annotations

import json
from typing import Any

from lyncean.model.v1 import model_pb2 as model

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"label": {"type": "string"}, "bbox_2d": {"type": "array", "items": {"type": "number"}}},
        "required": ["bbox_2d"],
    }
)
ARGUMENTS = '{"label": "the cup", "bbox_2d": [1, 2, 30, 40]}'


def tool(name: str = "zoom", schema: str = SCHEMA, description: str = "Cuts a box out of the image.") -> model.Tool:
    """Returns a tool."""
    return model.Tool(name=name, description=description, input_schema=schema)


def called(*ids: str, text: str = "", name: str = "zoom", arguments: str = ARGUMENTS, **fields: Any) -> model.Message:
    """Returns an assistant's message with calls."""
    message = model.Message(role=model.ROLE_ASSISTANT, **fields)
    if text:
        message.parts.add(text=text)
    for id_ in ids:
        message.parts.add(tool_call=model.ToolCall(id=id_, name=name, arguments=arguments))
    return message


def result(id_: str, *content: str | bytes, is_error: bool = False) -> model.Part:
    """Returns the result of a call: texts and images."""
    parts = [
        model.Part(text=piece) if isinstance(piece, str) else model.Part(image=model.Image(data=piece))
        for piece in content
    ]
    return model.Part(tool_result=model.ToolResult(tool_call_id=id_, content=parts, is_error=is_error))


def results(*parts: model.Part) -> model.Message:
    """Returns the tools' message."""
    return model.Message(role=model.ROLE_TOOL, parts=parts)


def user(*content: str | bytes) -> model.Message:
    """Returns the user's message."""
    return model.Message(role=model.ROLE_USER, parts=result("", *content).tool_result.content)
