"""The fields of a chat completion that the contract can obey; one that cannot be obeyed is refused, never ignored."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import grpc
import msgspec

from lyncean_openai_front.errors import refuse
from lyncean_openai_front.tools import Choice, Details, Mode, Tool, ToolCall

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "modalities": (["text"],),
    "best_of": (1,),
    "suffix": ("",),
}
"""Fields that the contract does not have, with the values that change nothing; of one, JSON schemas are obeyed."""
_WITHOUT_EFFECT = frozenset(
    {"user", "metadata", "store", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"}
)
"""Fields that do not change the answer."""
_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
"""Fields that chat completions have where tools are offered."""


class _ImageUrl(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    detail: Literal["auto"] | None = None


class Text(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """A text part."""

    text: str


class Image(msgspec.Struct, tag_field="type", tag="image_url", forbid_unknown_fields=True):
    """An image part."""

    image_url: _ImageUrl


class _AudioData(msgspec.Struct, forbid_unknown_fields=True):
    data: str
    format: Literal["wav", "mp3"]


class Audio(msgspec.Struct, tag_field="type", tag="input_audio", forbid_unknown_fields=True):
    """An audio part."""

    input_audio: _AudioData


class _VideoUrl(msgspec.Struct, forbid_unknown_fields=True):
    url: str


class Video(msgspec.Struct, tag_field="type", tag="video_url", forbid_unknown_fields=True):
    """A video part."""

    video_url: _VideoUrl


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Text | Image | Audio | Video] | None = None
    name: str | None = None
    refusal: None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: None = None
    audio: None = None
    reasoning_content: str | None = None
    reasoning_details: list[Details] | None = None

    def __post_init__(self) -> None:
        """Refuses fields of another role; the message says where."""
        if self.content is None and not self.tool_calls:
            raise ValueError("Object missing required field `content`")
        if self.name is not None and self.role != "tool":
            raise ValueError("Expected `null`, got `str` - `name`")
        if self.tool_call_id is not None and self.role != "tool":
            raise ValueError("`tool_call_id` is of messages of role tool")
        if (self.tool_calls or self.reasoning_details) and self.role != "assistant":
            raise ValueError("`tool_calls` are of messages of role assistant")


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """What a stream has besides the choices."""

    include_usage: bool = False


class _Schema(msgspec.Struct, forbid_unknown_fields=True):
    schema: dict[str, Any] | bool
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class _ResponseFormat(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    json_schema: _Schema


class StructuredOutputs(msgspec.Struct, forbid_unknown_fields=True):
    """vLLM's field for formats of answers."""

    choice: list[str] | None = None
    regex: str | None = None
    json: dict[str, Any] | str | bool | None = None


class Chat(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a chat completion that the contract can obey."""

    model: str
    messages: list[_Message]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    response_format: _ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    tools: list[Tool] | None = None
    tool_choice: Mode | Choice | None = None
    parallel_tool_calls: bool | None = None


Form = TypeVar("Form", bound=msgspec.Struct)


def parse(body: bytes, form: type[Form]) -> Form:
    """Reads a request.

    Args:
        body: JSON.
        form: `Chat`, or another kind of request with the fields that can be obeyed.

    Raises:
        CallError: INVALID_ARGUMENT for what is no such request; UNIMPLEMENTED for a field that cannot be obeyed.
    """
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse("bad_json", f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise refuse("bad_json", "the body is not a JSON object")
    offers = "tools" in form.__struct_fields__ and bool(fields.get("tools"))
    for name in list(fields):
        value = fields[name]
        if offers and name in _OF_TOOLS:
            continue
        obeyed = name == "response_format" and isinstance(value, dict) and value.get("type") == "json_schema"
        if name in _NEUTRAL and value is not None and value not in _NEUTRAL[name] and not obeyed:
            raise refuse(
                "field_unsupported",
                f"{name}: the contract behind this server has no such setting; leave it out",
                grpc.StatusCode.UNIMPLEMENTED,
            )
        if name in _WITHOUT_EFFECT or value is None or (name in _NEUTRAL and not obeyed):
            del fields[name]
        elif name not in form.__struct_fields__:
            raise refuse(
                "field_unsupported",
                f"{name[:60]!r} is not a field that this server can obey; leave it out",
                grpc.StatusCode.UNIMPLEMENTED,
            )
    try:
        return msgspec.convert(fields, form)
    except (msgspec.ValidationError, RecursionError) as error:
        raise refuse("bad_field", str(error)) from None
