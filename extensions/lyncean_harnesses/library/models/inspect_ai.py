"""`--model lyncean/HOST:PORT` of Inspect AI, found by its entry points."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    Logprob,
    Logprobs,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    StopReason,
    TopLogprob,
    modelapi,
)

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean_harnesses.library.models.client import Client, Connection, ModelError, text_of, user
from lyncean_harnesses.library.requests import ROLES, shown, without_clips

_STOPS: dict[int, StopReason] = {
    model.FINISH_REASON_END_OF_SEQUENCE: "stop",
    model.FINISH_REASON_STOP_STRING: "stop",
    model.FINISH_REASON_MAX_TOKENS: "max_tokens",
    model.FINISH_REASON_CONTENT_FILTER: "content_filter",
    model.FINISH_REASON_TOOL_CALLS: "tool_calls",
}
_REFUSED = (
    "best_of",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "prompt_logprobs",
    "fallback_models",
    "verbosity",
    "effort",
    "reasoning_effort",
    "reasoning_mode",
    "reasoning_summary",
    "response_schema",
    "extra_headers",
    "modalities",
)
"""Settings that would change the answer and are not part of the contract."""


@modelapi(name="lyncean")
class Lyncean(ModelAPI):
    """A ModelService.

    Args:
        model_name: `HOST:PORT`.
        base_url: Refused: the address is in the model's name.
        api_key: Refused: give `-M token_file=FILE`, or $LYNCEAN_TOKEN.
        config: Inspect's settings of generation.
        arguments: Those of `Client.from_arguments`, as `-M NAME=VALUE`.

    Raises:
        PrerequisiteError: The arguments are wrong, or the server cannot be asked. One line on Inspect's command line.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008
        **arguments: Any,
    ) -> None:
        super().__init__(model_name, None, None, [], config)
        with _one_line():
            if base_url or api_key:
                raise ModelError("no --model-base-url and no API key", fix="use lyncean/HOST:PORT, -M token_file=FILE")
            self._client = Client.from_arguments({"endpoint": model_name, **arguments})
            self._info = self._client.describe()
        self._stack: contextlib.AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connecting: asyncio.Task[Connection] | None = None

    def max_connections(self) -> int:
        """Returns the number of concurrent calls that the server takes."""
        return self._info.max_concurrency + self._info.max_waiting or 1

    def connection_key(self) -> str:
        """Returns the key by which connections are counted: the address."""
        return self.model_name

    async def generate(
        self, input: list[ChatMessage], tools: list[Any], tool_choice: Any, config: GenerateConfig
    ) -> ModelOutput:
        """Returns the answer to a conversation.

        Raises:
            ModelError: The request has what the contract cannot carry, or the model does not answer it.
        """
        if tools:
            raise ModelError("model lyncean calls no tools")
        request = model.GenerateRequest(messages=[_message(message) for message in input], config=_config(config))
        connection = await self._connection()
        choices, usage = [], model.Usage()
        for number in range(config.num_choices or 1):
            if number and config.seed is not None:
                request.config.seed = (config.seed + number) % 2**64
            response = await connection.ask(request)
            choices.append(_choice(response, self._info.model_name, config))
            usage.input_tokens = response.usage.input_tokens
            usage.cached_tokens = response.usage.cached_tokens
            usage.output_tokens += response.usage.output_tokens
            usage.reasoning_tokens += response.usage.reasoning_tokens
        return ModelOutput(
            model=self._info.model_name,
            choices=choices,
            usage=ModelUsage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                total_tokens=usage.input_tokens + usage.output_tokens,
                reasoning_tokens=usage.reasoning_tokens,
                input_tokens_cache_read=usage.cached_tokens,
            ),
        )

    async def _connection(self) -> Connection:
        """Returns the connection of this event loop: a model outlives the loop of one evaluation."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._connecting is None:
            self._loop, self._stack = loop, contextlib.AsyncExitStack()
            self._connecting = asyncio.ensure_future(self._stack.enter_async_context(self._client.connection()))
        try:
            return await asyncio.shield(self._connecting)
        except UserError:
            self._connecting = None
            raise

    async def aclose(self) -> None:
        """Closes the connection."""
        if self._stack is not None and self._loop is asyncio.get_running_loop():
            await self._stack.aclose()
        self._stack = self._loop = self._connecting = None


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise PrerequisiteError(f"lyncean: {error}".replace("[", r"\[")) from None


def _message(message: ChatMessage) -> model.Message:
    if message.role not in ROLES:
        raise ModelError(f"a request cannot hold a message of the role {message.role!r}")
    if isinstance(message.content, str):
        return user([message.content], ROLES[message.role])
    pieces: list[str | bytes] = []
    for part in message.content:
        if part.type == "text":
            pieces.append(part.text)
        elif part.type == "image":
            pieces.append(_image(part.image))
        elif part.type != "reasoning":  # templates omit the reasoning of earlier turns
            raise ModelError(f"the questions have {part.type}, and requests hold text and images")
    return user(pieces or [""], ROLES[message.role])


def _image(where: str) -> bytes:
    """Returns the bytes of a data URL or a local file; nothing is fetched."""
    head, comma, data = where.partition(",")
    if head.startswith("data:") and comma:
        try:
            return base64.b64decode(data, validate=True) if head.endswith(";base64") else unquote(data).encode()
        except (binascii.Error, ValueError):
            raise ModelError("an image's data URL is not valid base64") from None
    scheme = urlsplit(where).scheme
    if len(scheme) > 1 and scheme != "file":
        raise ModelError(f"an image is at {where[:200]}, and images are not fetched", fix="give a file or a data URL")
    path = Path(unquote(urlsplit(where).path) if scheme == "file" else where)
    (data,) = without_clips(shown(path))
    return bytes(data)


def _config(settings: GenerateConfig) -> model.GenerationConfig:
    for name in _REFUSED:
        if getattr(settings, name, None) not in (None, 0, {}, []):
            raise ModelError(f"model lyncean has no setting {name}", fix="leave it out")
    values = {
        "max_output_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "seed": settings.seed,
        "thinking_budget": settings.reasoning_tokens,
    }
    config = model.GenerationConfig()
    try:
        for name, value in values.items():
            if value is not None:
                setattr(config, name, value)
        config.stop.extend(settings.stop_seqs or [])
        if settings.logprobs or settings.top_logprobs:
            config.top_logprobs = settings.top_logprobs or 1
        body = dict(settings.extra_body or {})
        config.chat_template_arguments.update(body.pop("chat_template_kwargs", None) or {})
        if body:
            config.extra_body.update(body)
    except (ValueError, TypeError) as error:
        raise ModelError(f"a setting of generation is out of range: {error}") from None
    if not config.chat_template_arguments.fields:
        config.ClearField("chat_template_arguments")
    return config


def _choice(response: model.GenerateResponse, name: str, config: GenerateConfig) -> ChatCompletionChoice:
    text = text_of(response)
    content: Any = text
    if response.reasoning:
        content = [ContentReasoning(reasoning=response.reasoning), ContentText(text=text)]
    logprobs = None
    if config.logprobs and response.logprobs:
        logprobs = Logprobs(content=[_token(token, config.top_logprobs or 0) for token in response.logprobs])
    return ChatCompletionChoice(
        message=ChatMessageAssistant(content=content, model=name, source="generate"),
        stop_reason=_STOPS.get(response.finish_reason, "unknown"),
        logprobs=logprobs,
    )


def _token(token: model.TokenLogprob, alternatives: int) -> Logprob:
    def entry(kind: Any, item: model.TokenLogprob | model.TopLogprob, **more: Any) -> Any:
        return kind(token=item.token.decode("utf-8", "replace"), logprob=item.logprob, bytes=list(item.token), **more)

    top = [entry(TopLogprob, other) for other in (token.top or token.alternatives)[:alternatives]]
    return entry(Logprob, token, top_logprobs=top or None)  # type: ignore[no-any-return]
