"""Parts of a conversation: those of its messages, and those in the results of tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lyncean.model.v1 import model_pb2 as model


def content(messages: Iterable[model.Message]) -> Iterator[model.Part]:
    """Returns texts, media and tool calls in the order in which the model sees them; a result by its own parts."""
    for message in messages:
        for part in message.parts:
            if part.HasField("tool_result"):
                yield from part.tool_result.content
            else:
                yield part


def calls(parts: Iterable[model.Part]) -> list[model.ToolCall]:
    """Returns the tool calls among some parts."""
    return [part.tool_call for part in parts if part.HasField("tool_call")]
