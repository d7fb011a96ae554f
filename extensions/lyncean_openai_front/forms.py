"""The fields of a chat completion that the contract can obey; one that cannot be obeyed is refused, never ignored."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import grpc
import msgspec

from lyncean_openai_front.errors import refuse
from lyncean_openai_front.tools import Choice, Details, Mode, Tool, ToolCall
from lyncean_openai_front.words import words

_DEFAULT_TOKENS = 16

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "logit_bias": ({},),
    "skip_special_tokens": (True,),
    "mm_processor_kwargs": ({},),
    "response_format": ({"type": "text"},),
    "functions": ([],),
    "modalities": (["text"],),
    "best_of": (1,),
    "suffix": ("",),
    "background": (False,),
    "service_tier": ("auto", "default"),
    "truncation": ("disabled",),
}
"""Values that change nothing, of fields that the contract does not have or has for other values alone."""
_WITHOUT_TOOLS: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
}
"""The same of fields that have a meaning where tools are offered."""
_WITHOUT_EFFECT = frozenset(
    {"user", "metadata", "store", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}
)
"""Fields that do not change the answer."""
BEYOND = (
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "min_p",
    "logit_bias",
    "skip_special_tokens",
    "mm_processor_kwargs",
)
"""Fields outside the contract, which an endpoint behind a proxy may obey."""
Detail = Literal["auto", "low", "high", "original"]
"""Resolution at which OpenAI's models see an image; a model server gets its bytes and has settings of its own."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class _ImageUrl(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    detail: Detail | None = None


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
    annotations: list[Any] | None = None
    reasoning_content: str | None = None
    reasoning_details: list[Details] | None = None

    def __post_init__(self) -> None:
        """Refuses fields of another role; the message says where."""
        if self.content is None and not self.tool_calls:
            raise ValueError("Object missing required field `content`")
        if self.tool_call_id is not None and self.role != "tool":
            raise ValueError("`tool_call_id` is of messages of role tool")
        if (self.tool_calls or self.reasoning_details) and self.role != "assistant":
            raise ValueError("`tool_calls` are of messages of role assistant")


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a stream besides the choices."""

    include_usage: bool = False


class _Schema(msgspec.Struct, forbid_unknown_fields=True):
    schema: dict[str, Any] | bool
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="json_schema"):
    """The format of an answer that follows a schema."""

    json_schema: _Schema


class StructuredOutputs(msgspec.Struct, forbid_unknown_fields=True):
    """vLLM's field for formats of answers."""

    choice: list[str] | None = None
    regex: str | None = None
    json: dict[str, Any] | str | bool | None = None


class JsonObject(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="json_object"):
    """The format of an answer that is some JSON object."""


class Sampling(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields that all endpoints share."""

    model: str
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    min_p: float | None = None
    logit_bias: dict[str, float] | None = None
    skip_special_tokens: bool | None = None
    mm_processor_kwargs: dict[str, Any] | None = None


class Chat(Sampling, forbid_unknown_fields=True, kw_only=True):
    """The fields of a chat completion that the contract can obey."""

    messages: list[_Message]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    response_format: ResponseFormat | JsonObject | None = None
    reasoning_effort: Effort | None = None
    structured_outputs: StructuredOutputs | None = None
    tools: list[Tool] | None = None
    tool_choice: Mode | Choice | None = None
    parallel_tool_calls: bool | None = None


class Completion(Sampling, forbid_unknown_fields=True, kw_only=True):
    """The fields of a completion that the contract can obey."""

    prompt: Any
    max_tokens: int = _DEFAULT_TOKENS
    n: int = 1
    logprobs: int | None = None
    echo: bool = False


Form = TypeVar("Form", bound=msgspec.Struct)


def parse(body: bytes, form: type[Form]) -> Form:
    """Reads a request.

    Args:
        body: JSON.
        form: `Chat`, or another kind of request with the fields that can be obeyed.

    Raises:
        CallError: INVALID_ARGUMENT for a malformed request; UNIMPLEMENTED for a field that cannot be obeyed.
    """
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse("bad_json", f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise refuse("bad_json", "the body is not a JSON object")
    neutral = _NEUTRAL if fields.get("tools") else _NEUTRAL | _WITHOUT_TOOLS
    for name in list(fields):
        value = fields[name]
        if value is None or name in _WITHOUT_EFFECT or value in neutral.get(name, ()):
            del fields[name]
        elif name not in form.__struct_fields__ or (name == "tool_choice" and name in neutral):
            raise refuse(
                "field_unsupported",
                f"{name[:60]!r} is not a field that this server can obey; leave it out",
                grpc.StatusCode.UNIMPLEMENTED,
            )
    try:
        return msgspec.convert(fields, form)
    except (msgspec.ValidationError, RecursionError) as error:
        raise refuse("bad_field", words(error)) from None
