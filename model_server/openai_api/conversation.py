"""Conversations in the form of an endpoint's chat completions."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from lyncean.media.types import clip_type
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest, Unsupported
from model_server import images
from model_server.openai_api.reply import REASONING
from model_server.openai_api.response_tools import ITEMS
from model_server.openai_api.tools import called, results

_ROLES = {model.ROLE_SYSTEM: "system", model.ROLE_USER: "user", model.ROLE_ASSISTANT: "assistant"}
_AUDIO = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def continues(messages: Sequence[model.Message]) -> bool:
    """Returns True if a conversation ends in the beginning of an answer."""
    return messages[-1].role == model.ROLE_ASSISTANT


def chat(
    messages: Sequence[model.Message], *, engine: bool = True, images_in_results: bool = False
) -> list[dict[str, Any]]:
    """Returns the conversation in the endpoint's form, images and clips as the files' own bytes.

    Args:
        messages: The conversation.
        engine: Whether the endpoint is vLLM or SGLang, which accept more names for reasoning than vendors do, and
            refuse arguments of tool calls that are not JSON.
        images_in_results: Whether images stand in results of tools; else in a user's message after these.

    Raises:
        InvalidRequest: For bytes that are not an image, or audio in a format that endpoints do not take.
        Unsupported: For a span of a clip, or a sampling of frames, which requests cannot express.
    """
    chat_messages: list[dict[str, Any]] = []
    for number, message in enumerate(messages, 1):
        if message.role == model.ROLE_TOOL:
            entries, pictures = results(message, _parts if images_in_results else None)
            chat_messages += entries
            if pictures:
                chat_messages.append({"role": "user", "content": _parts(pictures)})
            continue
        # The first name is vLLM's, the second that of its older versions and of vendors.
        names = REASONING if engine else REASONING[1:]
        thoughts = dict.fromkeys(names, message.reasoning) if message.reasoning else {}
        calls = called(message, json_alone=engine)
        if not images_in_results:
            calls.pop(ITEMS, None)  # of the Responses API
        if calls or (number == len(messages) and message.role == model.ROLE_ASSISTANT):
            text = "".join(part.text for part in message.parts)
            chat_messages.append({"role": "assistant", "content": text, **thoughts, **calls})
        elif all(part.WhichOneof("kind") == "text" for part in message.parts) and len(message.parts) == 1:
            chat_messages.append({"role": _ROLES[message.role], "content": message.parts[0].text})
        else:
            chat_messages.append({"role": _ROLES[message.role], "content": _parts(message.parts)})
    return chat_messages


def _parts(parts: Sequence[model.Part]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for part in parts:
        match part.WhichOneof("kind"):
            case "text":
                entries.append({"type": "text", "text": part.text})
            case "image":
                url = _data_url(images.media_type(part.image.data), part.image.data)
                entries.append({"type": "image_url", "image_url": {"url": url}})
            case "audio":
                entries.append({"type": "input_audio", "input_audio": _audio(part.audio)})
            case "video":
                _refuse_choice(part.video)
                url = _data_url(clip_type("video", part.video.data), part.video.data)
                entries.append({"type": "video_url", "video_url": {"url": url}})
    return entries


def _data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _audio(audio: model.Audio) -> dict[str, str]:
    _refuse_choice(audio)
    form = _AUDIO.get(clip_type("audio", audio.data))
    if form is None:
        raise InvalidRequest("bad_audio", "the endpoint takes audio as WAV or MP3, and a file is neither")
    return {"data": base64.b64encode(audio.data).decode("ascii"), "format": form}


def _refuse_choice(part: model.Audio | model.Video) -> None:
    for field in ("span", "sampling"):
        if field in part.DESCRIPTOR.fields_by_name and part.HasField(field):  # type: ignore[arg-type]
            raise Unsupported(f"no_{field}", f"the endpoint cannot be told the {field} of a clip: leave it unset")
