"""Questions that the code of a foreign task sends to a judge: any conversation, and a free-text reply."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lyncean.model.v1 import model_pb2
from scorer.judges.base import JudgeError, JudgePrompt, canonical

SETTINGS = ("temperature", "top_p", "stop", "frequency_penalty", "presence_penalty", "response_format")
"""Settings that the judge gets besides the messages and the token limit."""

_IGNORED = {"model", "messages", "max_tokens", "max_completion_tokens", "seed", "user", "n", "timeout", "stream"}
_ROLES = {
    "system": model_pb2.ROLE_SYSTEM,
    "developer": model_pb2.ROLE_SYSTEM,
    "user": model_pb2.ROLE_USER,
    "assistant": model_pb2.ROLE_ASSISTANT,
}


@dataclass(frozen=True)
class ChatPrompt(JudgePrompt):
    """A conversation in the form of the chat completions API.

    Attributes:
        messages: The messages as sent.
        settings: The values of `SETTINGS` in the request.
        limit: Most tokens of the reply; None for the default.
    """

    messages: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None

    @cached_property
    def sha256(self) -> str:
        """Hash of all inputs of the judge."""
        inputs = {"messages": self.messages, "settings": self.settings, "limit": self.limit}
        return hashlib.sha256(canonical(inputs).encode()).hexdigest()

    def read(self, text: str) -> Mapping[str, Any]:
        """Returns the reply unparsed."""
        return {"text": text}


def prompt_of(body: Any) -> ChatPrompt:
    """Returns the prompt of a request's body; the body's model is ignored, the scorer's judge replies.

    Raises:
        JudgeError: The body asks for a feature that a judge does not have.
    """
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise JudgeError("judge_error", "the task's code sends a judge no messages")
    for name, value in body.items():
        unsupported = (name == "n" and value not in (None, 1)) or (name == "stream" and value)
        if unsupported or (value is not None and name not in SETTINGS and name not in _IGNORED):
            raise JudgeError("judge_error", f"the task's code asks a judge with {name}={value!r:.40}: not supported")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    return ChatPrompt(
        name="chat/1",
        system="",
        user="",
        schema={},
        messages=tuple(messages),
        settings={name: body[name] for name in SETTINGS if body.get(name) is not None},
        limit=int(limit) if limit else None,
    )


def conversation(prompt: ChatPrompt) -> list[model_pb2.Message]:
    """Returns the messages as ones of ModelService.

    Raises:
        JudgeError: One holds content that ModelService cannot carry, such as the address of an image.
    """
    try:
        return [
            model_pb2.Message(role=_ROLES[message["role"]], parts=_parts(message.get("content") or ""))
            for message in prompt.messages
        ]
    except KeyError as error:
        raise JudgeError("judge_error", f"the task's code sends a judge no {error} in a message") from None


def _parts(content: Any) -> Iterator[model_pb2.Part]:
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "text":
            yield model_pb2.Part(text=part["text"])
            continue
        image: Any = part.get("image_url", "")
        address = image.get("url", "") if isinstance(image, dict) else image
        head, _, data = str(address).partition(";base64,")
        try:
            if not head.startswith("data:") or not data:
                raise ValueError(head[:40])
            yield model_pb2.Part(image=model_pb2.Image(data=base64.b64decode(data, validate=True)))
        except (ValueError, binascii.Error):
            problem = f"the task's code shows a judge of grpc: {part['type']} {head[:40]!r}, not an encoded image"
            raise JudgeError("judge_error", problem) from None
