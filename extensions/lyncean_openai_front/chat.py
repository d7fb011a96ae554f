"""Chat completions in the contract's messages, and back."""

from __future__ import annotations

import base64
import binascii
import functools
import time
import uuid
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from lyncean.model.v1 import model_pb2 as model
from lyncean_openai_front.answer import finished, server_sent, token_entry, usage
from lyncean_openai_front.errors import refuse
from lyncean_openai_front.forms import Audio, Chat, Image, JsonObject, StructuredOutputs, Text, Video
from lyncean_openai_front.sampling import MAX_CHOICES, in_range, set_effort, set_sampling
from lyncean_openai_front.tools import add_calls, add_result, as_delta, calls_of, offer

MAX_PARTS = 10_000
"""Messages and parts of one request: more are a mistake, and reading them would hold up all others."""
_FORMATS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_ROLES = {
    "system": model.ROLE_SYSTEM,
    "developer": model.ROLE_SYSTEM,
    "user": model.ROLE_USER,
    "assistant": model.ROLE_ASSISTANT,
}


def requests(chat: Chat, info: model.GetModelInfoResponse) -> list[model.GenerateRequest]:
    """Returns the calls for all choices; with a seed, choice i is drawn with seed + i.

    Args:
        chat: The request.
        info: What the model server claims. It gives `max_samples` outputs for one call; 0 makes a call per choice.

    Raises:
        CallError: INVALID_ARGUMENT for values that the contract cannot carry.
    """
    _check_last(chat)
    count = sum(
        1 + (len(one.content) if isinstance(one.content, list) else 0) + len(one.tool_calls or ())
        for one in chat.messages
    )
    if count > MAX_PARTS:
        raise refuse("too_many_parts", f"{count:,} messages and parts: at most {MAX_PARTS:,}")
    first = model.GenerateRequest()
    for index, message in enumerate(chat.messages):
        where = f"messages[{index}]"
        add = functools.partial(_add_content, content=message.content, where=where)
        if message.role == "tool":
            add_result(first.messages, message.tool_call_id, add, where)
            continue
        role = _ROLES[message.role]
        if role == model.ROLE_SYSTEM and index and all(one.role == role for one in first.messages):
            target = first.messages[0]  # the contract has one system message: those at the beginning are its paragraphs
            target.parts.add(text="\n\n")
        else:
            target = first.messages.add(role=role, reasoning=message.reasoning_content or "")
        if message.content or not message.tool_calls:
            add(target.parts)
        add_calls(target, message.tool_calls or (), message.reasoning_details or ())
    offer(first, chat.tools or (), chat.tool_choice, chat.parallel_tool_calls)
    _configure(first.config, chat, info.capabilities)
    most = max(1, info.max_samples)
    count = 1 if chat.n is None else chat.n
    if not 1 <= count <= MAX_CHOICES:
        raise refuse("bad_n", f"n is {count}: 1 to {MAX_CHOICES}")
    calls = []
    for offset in range(0, count, most):
        call = model.GenerateRequest()
        call.CopyFrom(first)
        outputs = min(count - offset, most)
        call.samples = outputs if outputs > 1 else 0
        if chat.seed is not None:
            call.config.seed = (chat.seed + offset) % 2**64
        calls.append(call)
    return calls


def _add_content(target: Any, content: str | Sequence[Text | Image | Audio | Video] | None, where: str) -> None:
    """Adds the content of a message to parts of the contract."""
    for number, part in enumerate([Text(content)] if isinstance(content, str) else content or ()):
        field = f"{where}.content[{number}]"
        match part:
            case Text():
                target.add(text=part.text)
            case Image():
                data, kind = _data(part.image_url.url, "image", field)
                target.add(image=model.Image(data=data, media_type=kind))
            case Video():
                data, kind = _data(part.video_url.url, "video", field)
                target.add(video=model.Video(data=data, media_type=kind))
            case Audio():
                data = _base64(part.input_audio.data, "audio", field)
                target.add(audio=model.Audio(data=data, media_type=_FORMATS[part.input_audio.format]))


def _check_last(chat: Chat) -> None:
    """Refuses a conversation without a question, unless it says that its last words are to be continued."""
    continues = bool(chat.continue_final_message)
    if chat.messages and (chat.messages[-1].role == "assistant") is not continues:
        raise refuse("last_not_user", "continue_final_message: true goes with a last message of the assistant's")
    if chat.add_generation_prompt is not None and chat.add_generation_prompt is continues:
        raise refuse("bad_field", "add_generation_prompt: false goes with continue_final_message: true")


def _configure(config: model.GenerationConfig, chat: Chat, claims: Collection[int]) -> None:
    limits = {limit for limit in (chat.max_tokens, chat.max_completion_tokens) if limit is not None}
    if len(limits) > 1:
        raise refuse("two_limits", "max_tokens and max_completion_tokens differ: send one of them")
    with in_range():
        set_sampling(config, chat, next(iter(limits), None), chat.seed, claims)
        set_effort(config, chat.reasoning_effort, claims)
        if chat.top_logprobs and not chat.logprobs:
            raise refuse("bad_field", "top_logprobs needs logprobs: true")
        if chat.logprobs:
            config.top_logprobs = chat.top_logprobs or 1
        if chat.chat_template_kwargs:
            config.chat_template_arguments.update(chat.chat_template_kwargs)
        formats = _formats(chat)
        if len(formats) > 1:
            raise refuse("two_formats", "response_format and the kinds of structured_outputs: send one of them")
        for limit in formats:
            config.response_format.CopyFrom(limit)


def _formats(chat: Chat) -> list[model.ResponseFormat]:
    structured = chat.structured_outputs or StructuredOutputs()
    schemas: list[Any] = []
    if isinstance(chat.response_format, JsonObject):
        schemas.append({"type": "object"})
    elif chat.response_format:
        schemas.append(chat.response_format.json_schema.schema)
    schemas += [] if structured.json is None else [structured.json]
    texts = [schema if isinstance(schema, str) else msgspec.json.encode(schema).decode() for schema in schemas]
    formats = [model.ResponseFormat(json_schema=text) for text in texts]
    if structured.choice is not None:
        formats.append(model.ResponseFormat(choices=model.AnswerChoices(texts=structured.choice)))
    if structured.regex is not None:
        formats.append(model.ResponseFormat(regex=structured.regex))
    return formats


def _data(url: str, medium: str, where: str) -> tuple[bytes, str]:
    """Returns the bytes of a data URL and its media type."""
    head, comma, data = url.partition(",")
    kind = head.removeprefix("data:")
    if not comma or kind == head or not kind.endswith(";base64"):
        example = {"image": "image/png", "video": "video/mp4"}[medium]
        raise refuse(
            f"{medium}_not_data_url",
            f"{where}: this server fetches no {medium}s; send the bytes as data:{example};base64,...",
        )
    return _base64(data, medium, where), kind.removesuffix(";base64")


def _base64(data: str, medium: str, where: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise refuse(f"bad_{medium}", f"{where}: the {medium} is not valid base64") from None


def completion(chat: Chat, answers: Sequence[model.GenerateResponse]) -> dict[str, Any]:
    """Returns the chat completion of these answers.

    Raises:
        CallError: INTERNAL for an answer that chat completions cannot carry.
    """
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": chat.model,
        "choices": [_choice(index, answer, chat) for index, answer in enumerate(answers)],
        "usage": usage(answers),
    }


def events(chat: Chat, response: dict[str, Any]) -> list[bytes]:
    """Returns the answer as server-sent events: one chunk for each choice, as ModelService does not stream."""
    common = {name: response[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choices = []
    for choice in response["choices"]:
        delta = {"index": choice["index"], "delta": as_delta(choice["message"]), "logprobs": choice["logprobs"]}
        choices.append({**delta, "finish_reason": choice["finish_reason"]})
    return server_sent(chat, common, choices, response["usage"])


def _choice(index: int, answer: model.GenerateResponse, chat: Chat) -> dict[str, Any]:
    text, finish = finished(answer, ("text", "tool_call"))
    calls = calls_of(answer)
    message = {"role": "assistant", "content": None if calls and not text else text, "refusal": None, **calls}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    logprobs = None
    if chat.logprobs:
        logprobs = {
            "content": [token_entry(token, chat.top_logprobs or 0) for token in answer.logprobs],
            "refusal": None,
        }
    return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": finish}
