"""Images as output: by an endpoint's images API, in its chat replies, or by the tool of its responses API.

Each function sends one conversation and returns the reply; a reply without an image is the model's answer, and is
returned as such.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import openai

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, InvalidRequest, Unsupported
from model_server import images
from model_server.backend import Call
from model_server.openai_api import responses
from model_server.openai_api.client import ask

UNHEARD = {
    "images": ("temperature", "top_p", "top_k", "stop", "top_logprobs", "max_output_tokens"),
    "chat": ("top_logprobs",),
    "responses": ("top_k", "stop", "top_logprobs"),
}
"""Settings that each way has no field for; a request that sets one is refused."""

_TOOL = {"type": "image_generation"}


def check(way: str, request: model.GenerateRequest) -> None:
    """Raises Unsupported for a setting that the endpoint cannot be told, and for tool results."""
    if any(message.role == model.ROLE_TOOL for message in request.messages):
        raise Unsupported("no_image_tools", "the endpoint draws after texts and images, not after results of tools")
    for name in UNHEARD[way]:
        if (value := getattr(request.config, name)) and (name, value) != ("top_p", 1.0):
            raise Unsupported(
                f"no_image_{name}", f"{name} cannot be set where the endpoint draws by its {way} API: leave it unset"
            )


class ImagesApi:
    """`/images/generations`, and `/images/edits` where the prompt holds images.

    Args:
        client: The endpoint's client.
        timeout: Seconds for one request.
    """

    def __init__(self, client: openai.AsyncOpenAI, timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._asks_for_data = True

    async def draw(
        self, call: Call, messages: Sequence[model.Message], name: str, extra: dict[str, Any]
    ) -> model.GenerateResponse:
        """Draws one image after the texts and images of one turn; the API knows neither their order nor roles.

        Raises:
            Unsupported: If the conversation has an earlier answer of the model's.
        """
        if any(message.role == model.ROLE_ASSISTANT for message in messages):
            raise Unsupported("one_turn", "an images API takes one turn: the conversation holds an earlier answer")
        parts = [part for message in messages for part in message.parts]
        pictures = [part.image.data for part in parts if part.WhichOneof("kind") == "image"]
        fields: dict[str, Any] = {"model": name, "n": 1, "extra_body": extra}
        fields["prompt"] = "\n".join(part.text for part in parts if part.WhichOneof("kind") == "text")
        send: Any = self._client.images.generate
        if pictures:
            send = self._client.images.edit
            kinds = [images.media_type(data) for data in pictures]
            fields["image"] = [
                (f"{index}.{kind.partition('/')[2]}", data, kind)
                for index, (data, kind) in enumerate(zip(pictures, kinds, strict=True))
            ]
        reply = await self._send(send, call, fields)
        response = model.GenerateResponse(finish_reason=model.FINISH_REASON_END_OF_SEQUENCE)
        for entry in getattr(reply, "data", None) or ():
            _add(response, getattr(entry, "b64_json", None) or getattr(entry, "url", None))
        if not response.parts:
            raise InternalFailure("bad_reply", "the endpoint's images API sent no image")
        usage = getattr(reply, "usage", None)
        response.usage.input_tokens = getattr(usage, "input_tokens", None) or 0
        response.usage.output_tokens = getattr(usage, "output_tokens", None) or 0
        return response

    async def _send(self, send: Any, call: Call, fields: dict[str, Any]) -> Any:
        """Requests data instead of a link; an endpoint without such a field sends data anyway."""
        if self._asks_for_data:
            try:
                return await ask(send, call, self._timeout, **fields, response_format="b64_json")
            except InvalidRequest as error:
                if "response_format" not in str(error):
                    raise
            self._asks_for_data = False
        return await ask(send, call, self._timeout, **fields)


def add_images(response: model.GenerateResponse, reply: Any) -> None:
    """Adds the images of a chat completion: from the message's `images`, or from parts of its content."""
    message = reply.choices[0].message
    content = message.content if isinstance(message.content, list) else []
    for part in [*content, *(getattr(message, "images", None) or ())]:
        if isinstance(part, dict) and part.get("type") == "image_url":
            link = part.get("image_url")
            _add(response, link.get("url") if isinstance(link, dict) else link)


async def by_responses(
    client: openai.AsyncOpenAI, call: Call, timeout: float, fields: Mapping[str, Any]
) -> model.GenerateResponse:
    """Draws with the responses API's tool, which the model is told to use.

    Args:
        client: The endpoint's client.
        call: The call that waits.
        timeout: Seconds.
        fields: The request in the form of a chat completion.
    """
    more = {name: value for name, value in fields.items() if name not in ("messages", "seed")}
    reply = await ask(
        client.responses.create,
        call,
        timeout,
        input=[responses.turn(message) for message in fields["messages"]],
        tools=[_TOOL],
        tool_choice=_TOOL,
        store=False,
        **more,
    )
    response = responses.read(reply, _add)
    if not response.parts and response.finish_reason != model.FINISH_REASON_CONTENT_FILTER:
        response.parts.add(text="")
    return response


def _add(response: model.GenerateResponse, image: Any) -> None:
    """Adds an image from base64 or a data URL; a link is never followed."""
    if not isinstance(image, str):
        raise InternalFailure("bad_reply", "the endpoint's reply has an image without data")
    if "://" in image[:16]:
        raise InternalFailure("image_is_a_link", "the endpoint sent a link in place of an image, and must send data")
    data = image.partition(";base64,")[2] if image.startswith("data:") else image
    try:
        raw = base64.b64decode(data, validate=True)
        kind = images.media_type(raw)
    except (binascii.Error, InvalidRequest) as error:
        raise InternalFailure("bad_reply", "the endpoint's reply has an image that cannot be read") from error
    response.parts.add(image=model.Image(data=raw, media_type=kind))
