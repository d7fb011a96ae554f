"""Items of the Responses API's input, as messages of chat completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from lyncean_openai_front.errors import refuse
from lyncean_openai_front.forms import Detail
from lyncean_openai_front.tools import ENCRYPTED

_FORMATS = {"wav": "wav", "x-wav": "wav", "mpeg": "mp3", "mp3": "mp3"}


class Words(msgspec.Struct, tag_field="type", tag="input_text", forbid_unknown_fields=True):
    """Text."""

    text: str


class Said(msgspec.Struct, tag_field="type", tag="output_text", forbid_unknown_fields=True):
    """Text of an answer."""

    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class Refused(msgspec.Struct, tag_field="type", tag="refusal", forbid_unknown_fields=True):
    """The words of a model that declined."""

    refusal: str


class Picture(msgspec.Struct, tag_field="type", tag="input_image", forbid_unknown_fields=True):
    """An image."""

    image_url: str
    detail: Detail | None = None
    file_id: None = None


class File(msgspec.Struct, tag_field="type", tag="input_file", forbid_unknown_fields=True):
    """A clip."""

    file_data: str
    filename: str | None = None
    file_id: None = None
    file_url: None = None


Part = Words | Said | Refused | Picture | File


class Turn(msgspec.Struct, tag_field="type", tag="message", forbid_unknown_fields=True):
    """A message."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class Called(msgspec.Struct, tag_field="type", tag="function_call", forbid_unknown_fields=True):
    """A call that the model made."""

    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class Result(msgspec.Struct, tag_field="type", tag="function_call_output", forbid_unknown_fields=True):
    """The result of a call."""

    call_id: str
    output: str | list[Part]
    id: str | None = None
    status: str | None = None


class _Thought(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    type: str = ""


class Reasoning(msgspec.Struct, tag_field="type", tag="reasoning", forbid_unknown_fields=True):
    """Reasoning before an answer or calls."""

    id: str | None = None
    summary: list[_Thought] = []
    content: list[_Thought] | None = None
    encrypted_content: str | None = None
    status: str | None = None


Item = Turn | Called | Result | Reasoning


def messages(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    """Yields the messages; an assistant's text, calls and the reasoning before them are one.

    Raises:
        CallError: INVALID_ARGUMENT for a file that is not a clip.
    """
    waiting: dict[str, Any] = {}
    for index, item in enumerate(items):
        if isinstance(item, Called | Reasoning) or (isinstance(item, Turn) and item.role == "assistant"):
            if "tool_calls" in waiting and not isinstance(item, Called):
                yield from _whole(waiting)
                waiting = {}
            waiting = waiting or {"role": "assistant", "content": None}
            _put(waiting, item, index)
            continue
        yield from _whole(waiting)
        waiting = {}
        if isinstance(item, Result):
            yield {"role": "tool", "tool_call_id": item.call_id, "content": _content(item.output, index)}
        else:
            yield {"role": item.role, "content": _content(item.content, index)}
    yield from _whole(waiting)


def _whole(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields an assistant's message; a prompt has the reasoning before calls, not that of an earlier answer."""
    if "tool_calls" in message:
        yield message
    elif message.get("content"):
        yield {"role": message["role"], "content": message["content"]}


def _put(message: dict[str, Any], item: Turn | Called | Reasoning, index: int) -> None:
    """Adds an item to the assistant's message."""
    if isinstance(item, Turn):
        content = _content(item.content, index)
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        message["content"] = message["content"] or []
        message["content"] += parts
    elif isinstance(item, Called):
        call = {"name": item.name, "arguments": item.arguments}
        message.setdefault("tool_calls", []).append({"id": item.call_id, "type": "function", "function": call})
    elif item.encrypted_content:
        message.setdefault("reasoning_details", []).append({"type": ENCRYPTED, "data": item.encrypted_content})
    else:
        thoughts = "".join(part.text for part in item.content or item.summary)
        message["reasoning_content"] = message.get("reasoning_content", "") + thoughts


def _content(content: str | Sequence[Part], index: int) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else [_part(part, index) for part in content]


def _part(part: Part, index: int) -> dict[str, Any]:
    match part:
        case Words() | Said():
            return {"type": "text", "text": part.text}
        case Refused():
            return {"type": "text", "text": part.refusal}
        case Picture():
            return {"type": "image_url", "image_url": {"url": part.image_url}}
    head, _, data = part.file_data.partition(",")
    kind, _, form = head.removeprefix("data:").removesuffix(";base64").partition("/")
    if kind == "video":
        return {"type": "video_url", "video_url": {"url": part.file_data}}
    if kind == "audio" and form in _FORMATS:
        return {"type": "input_audio", "input_audio": {"data": data, "format": _FORMATS[form]}}
    raise refuse("bad_field", f"input[{index}]: a file is a video, or audio as WAV or MP3, in a data URL")
