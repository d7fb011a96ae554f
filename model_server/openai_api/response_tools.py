"""Tools in the Responses API: images stand in results, and encrypted reasoning is returned unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure
from model_server.tool_checks import MAX_OPAQUE

ENCRYPTED = "reasoning.encrypted_content"
"""The `include` value that returns encrypted reasoning if nothing is stored at the vendor."""
ITEMS = "reasoning_items"
"""Field of opaque reasoning that holds the reply's reasoning items, each with the number of calls before it."""
_KEPT = ("id", "summary", "encrypted_content")

Content = Callable[[Any, str], list[dict[str, Any]]]
"""Returns the parts of a message's content; texts become parts of the named type."""


def functions(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the tools of a chat completion in the form of the Responses API, which is strict by default."""
    return [{"type": "function", "strict": False, **tool["function"]} for tool in tools]


def choice(value: Any) -> Any:
    """Returns the tool choice of a chat completion in the form of the Responses API."""
    return value if isinstance(value, str) else {"type": "function", "name": value["function"]["name"]}


def items(message: Mapping[str, Any], content: Content) -> list[dict[str, Any]]:
    """Returns a message with calls, or a tool's, as items of the input."""
    if message["role"] == "tool":
        answer = message["content"]
        output = answer if isinstance(answer, str) else content(answer, "input_text")
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}]
    entries: list[dict[str, Any]] = []
    thoughts = message.get(ITEMS) or []
    for index, call in enumerate(message["tool_calls"]):
        entries += [{"type": "reasoning", **thought["item"]} for thought in thoughts if thought["calls"] == index]
        if not index and message["content"]:
            entries.append({"role": "assistant", "content": message["content"]})
        entries.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return entries


def is_item_list(value: Any) -> bool:
    """Returns True if a value has the form that `keep` stores in opaque reasoning."""
    return isinstance(value, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("calls"), int) and isinstance(entry.get("item"), dict)
        for entry in value
    )


def keep(response: model.GenerateResponse, output: Sequence[Any]) -> None:
    """Adds the calls of a reply, and keeps its encrypted reasoning.

    Raises:
        InternalFailure: If that is too large.
    """
    thoughts: list[dict[str, Any]] = []
    count = 0
    for item in output:
        if item.type == "function_call":
            response.parts.add(
                tool_call=model.ToolCall(id=item.call_id, name=item.name, arguments=item.arguments or "{}")
            )
            count += 1
        elif item.type == "reasoning" and getattr(item, "encrypted_content", None):
            dumped = item.model_dump(mode="json", include=set(_KEPT))
            thoughts.append({"calls": count, "item": dumped})
    if count and thoughts:
        response.opaque = json.dumps({ITEMS: thoughts}).encode()
        if len(response.opaque) > MAX_OPAQUE:
            raise InternalFailure("opaque_too_large", f"the endpoint's reasoning is larger than {MAX_OPAQUE:,} bytes")
