"""Reads calls by the response template that a tokenizer carries, with the library's own parser."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from transformers.utils.chat_parsing import parse_response

from model_server.tool_calls import Types, Written


@dataclass(frozen=True)
class ResponseTemplate:
    """The mark-up that a response template describes.

    Attributes:
        template: The tokenizer's response template.
        opens: The mark before a call.
    """

    template: dict[str, Any]
    opens: str

    def pieces(self, text: str, types: Types) -> list[str | Written]:
        """Returns the text and the calls of an output; only the text if the parser refuses it."""
        tools: list[Any] = [
            {"function": {"name": name, "parameters": {"properties": schemas}}} for name, schemas in types.items()
        ]
        try:
            message = parse_response(text, self.template, prefix="", tools=tools)
            calls: list[str | Written] = [_written(call["function"]) for call in message.get("tool_calls") or []]
        except (ValueError, TypeError, LookupError):
            return [text]
        content = message.get("content")
        pieces: list[str | Written] = [content] if isinstance(content, str) and content else []
        return pieces + calls if calls else [text]


def _written(function: Any) -> Written:
    name, arguments = function["name"], function["arguments"]
    if not isinstance(name, str):
        raise TypeError("a name is not a text")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Written(name, text)


def of_tokenizer(tokenizer: Any) -> list[ResponseTemplate]:
    """Returns a tokenizer's response template; an empty list if it has none that describes calls."""
    template = getattr(tokenizer, "response_template", None)
    fields = template.get("fields") if isinstance(template, dict) else None
    calls = fields.get("tool_calls") if isinstance(fields, dict) else None
    opens = calls.get("open") if isinstance(calls, dict) else None
    return [ResponseTemplate(template, opens)] if isinstance(template, dict) and isinstance(opens, str) else []
