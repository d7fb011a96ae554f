"""Requests are checked here, before any model is touched; the rest is the backend's."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from google.protobuf.unknown_fields import UnknownFieldSet

from lyncean import response_format
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import (
    MAX_MESSAGE_BYTES,
    InternalFailure,
    InvalidRequest,
    Unavailable,
    Unsupported,
    status_of,
    status_proto,
)
from model_server import clips, images
from model_server.backend import Backend, Call, Output
from model_server.held import HeldFiles, default_capacity
from model_server.images import PixelBudget

_Switch = Literal["thinking", "thinking_budget", "chat_template_arguments", "extra_body"]
MAX_IMAGES = 256
"""Images in one prompt."""
MAX_CLIPS = 64
"""Audio and video parts in one prompt."""
MAX_CONTINUATIONS = 4096
"""Continuations of one Likelihood request."""
MAX_STOP = 64
"""Stop strings."""
MAX_TOP_LOGPROBS = 20
"""Alternatives per output token."""

_SWITCHES: tuple[tuple[_Switch, model.Capability.ValueType, str], ...] = (
    ("thinking", model.CAPABILITY_THINKING, "cannot turn its reasoning on or off"),
    ("thinking_budget", model.CAPABILITY_THINKING_BUDGET, "cannot bound its reasoning"),
    ("chat_template_arguments", model.CAPABILITY_CHAT_TEMPLATE_ARGUMENTS, "takes no arguments of a chat template"),
    ("extra_body", model.CAPABILITY_EXTRA_BODY, "is not behind an endpoint that takes further fields"),
)
"""Fields of GenerationConfig that need a capability each, and what a server without it says."""

_FORMATS: dict[str | None, tuple[model.Capability.ValueType, str]] = {
    "choices": (model.CAPABILITY_ANSWER_CHOICES, "to choices"),
    "regex": (model.CAPABILITY_ANSWER_REGEX, "to a regular expression"),
    "json_schema": (model.CAPABILITY_ANSWER_JSON_SCHEMA, "to a JSON schema"),
}
"""Kinds of formats that need a capability each, and what a server without it does not hold an answer to."""

_MEDIA = (
    ("image", model.CAPABILITY_IMAGE_INPUT, "images"),
    ("audio", model.CAPABILITY_AUDIO_INPUT, "audio"),
    ("video", model.CAPABILITY_VIDEO_INPUT, "videos"),
)
"""Kinds of parts that need a capability each, and what a server without it says."""


class Core:
    """ModelService without a transport.

    Args:
        backend: The model.
        pixels: Bounds what is decoded at a time; by default by the container's memory.
    """

    def __init__(self, backend: Backend, pixels: PixelBudget | None = None) -> None:
        self.backend = backend
        self._pixels = pixels or PixelBudget()
        self._info: model.GetModelInfoResponse | None = None
        self._held = HeldFiles(0, MAX_MESSAGE_BYTES)

    def ready(self) -> None:
        """Called once the backend is loaded: from now on requests are answered."""
        info = model.GetModelInfoResponse()
        info.CopyFrom(self.backend.info())
        info.max_request_bytes = info.max_request_bytes or MAX_MESSAGE_BYTES
        if model.CAPABILITY_IMAGE_INPUT in info.capabilities:
            info.media_limits.max_images = min(info.media_limits.max_images or MAX_IMAGES, MAX_IMAGES)
        if any(capability in info.capabilities for _, capability, _ in _MEDIA):
            capacity = self.backend.max_held_bytes
            self._held = HeldFiles(default_capacity() if capacity is None else capacity, info.max_request_bytes)
        if self._held.capacity:
            info.capabilities.append(model.CAPABILITY_MEDIA_BY_HASH)
        info.max_held_bytes = self._held.capacity
        self._info = info

    def info(self) -> model.GetModelInfoResponse:
        """Describes the model.

        Raises:
            Unavailable: While it is loading.
        """
        if self._info is None:
            raise Unavailable("model_loading", "the model is still loading: ask again")
        return self._info

    async def complete_batch(self, calls: Iterable[Sequence[model.Message]]) -> None:
        """Puts the bytes of files that one call of a Batch brings into the others that send their hashes.

        Args:
            calls: The conversation of each call.
        """
        await self._held.complete_batch(calls)

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        """Checks and answers one Generate request."""
        info = self.info()
        await self._held.complete(request.messages)
        if model.CAPABILITY_GENERATE not in info.capabilities:
            raise Unsupported("no_generate", f"{info.model_name} only scores continuations: use Likelihood")
        if request.HasField("raw_prompt"):
            self._check_raw(request, info)
            _check_raw_generate(request)
        else:
            self._check_messages(request.messages, info)
        _check_prompt_wanted(request, info)
        self._check_config(request.config, info)
        if request.config.HasField("response_format"):
            await asyncio.to_thread(self._check_format, request, info)
        if request.modality == model.MODALITY_IMAGE:
            if model.CAPABILITY_IMAGE_OUTPUT not in info.capabilities:
                raise Unsupported("no_image_output", f"{info.model_name} makes no images")
        elif request.modality not in (model.MODALITY_UNSPECIFIED, model.MODALITY_TEXT):
            raise Unsupported("unknown_modality", f"modality {request.modality} is not known to this server")
        _check_samples(request, info)
        async with self._pixels.held(await self._decoded(request.messages)):
            if request.samples > 1:
                return _together(await self.backend.generate_samples(_apart(request), call))
            return _whole(await self.backend.generate(request, call))

    async def likelihood(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        """Checks and answers one Likelihood request."""
        info = self.info()
        await self._held.complete(request.messages)
        if model.CAPABILITY_LIKELIHOOD not in info.capabilities:
            raise Unsupported("no_likelihood", f"{info.model_name} does not score continuations: use Generate")
        if request.HasField("raw_prompt"):
            self._check_raw(request, info)
        else:
            self._check_messages(request.messages, info)
        _check_prompt_wanted(request, info)
        count = len(request.continuations)
        if request.score_prompt and (count or not request.HasField("raw_prompt")):
            raise InvalidRequest("bad_score_prompt", "score_prompt needs a raw_prompt and no continuations")
        if count and request.raw_prompt.HasField("tokens"):
            raise InvalidRequest(
                "continuation_of_tokens", "no text can be tokenized together with a raw_prompt of tokens: send its text"
            )
        if not count and not request.score_prompt:
            raise InvalidRequest("no_continuations", "there is no continuation to score: send at least one")
        _check_count("too_many_continuations", "continuations", count, MAX_CONTINUATIONS)
        for index, text in enumerate(request.continuations):
            if not text:
                raise InvalidRequest("empty_continuation", f"continuation {index} is empty", index=str(index))
        async with self._pixels.held(await self._decoded(request.messages)):
            response = await self.backend.likelihood(request, call)
        for index, score in enumerate(response.scores):
            if math.isnan(score.logprob):
                raise InternalFailure("not_a_number", f"the log-probability of continuation {index} is NaN")
        for index, token in enumerate(response.prompt_tokens):
            if math.isnan(token.logprob):
                raise InternalFailure("not_a_number", f"the log-probability of token {index} of the prompt is NaN")
        return response

    async def _decoded(self, messages: Sequence[model.Message]) -> int:
        """Returns the pixels of what the backend will decode."""
        if not self.backend.decodes:
            return 0
        parts = [part for message in messages for part in message.parts]
        pixels = sum(images.pixels(part.image.data) for part in parts if part.HasField("image"))
        for part in parts:
            if part.HasField("video"):  # of which the first frame is decoded, beside the event loop
                pixels += await asyncio.to_thread(clips.most_pixels, part.video)
        return pixels

    def _check_messages(self, messages: Sequence[model.Message], info: model.GetModelInfoResponse) -> None:
        if not messages:
            raise InvalidRequest("empty_prompt", "there are no messages: send at least one")
        counts: Counter[str] = Counter()
        for index, message in enumerate(messages):
            if message.role not in (model.ROLE_SYSTEM, model.ROLE_USER, model.ROLE_ASSISTANT):
                raise InvalidRequest("no_role", f"message {index} has no role that this server knows")
            if message.role == model.ROLE_SYSTEM and index:
                raise InvalidRequest(
                    "system_not_first", f"message {index} is a system message: only the first may be one"
                )
            if message.role == model.ROLE_SYSTEM and info.system_messages == model.SYSTEM_MESSAGES_REFUSED:
                raise Unsupported(
                    "no_system_messages", f"{info.model_name} takes no system messages: put the words into the user's"
                )
            if not message.parts:
                raise InvalidRequest("empty_message", f"message {index} has no parts")
            for number, part in enumerate(message.parts):
                kind = _checked_part(part, f"message {index}, part {number}")
                counts[kind] += kind != "text" or bool(part.text.strip())
        _check_last(messages[-1], info)
        for index, message in enumerate(messages[:-1]):
            if message.reasoning:
                raise InvalidRequest("reasoning_not_last", f"message {index} has reasoning, and is not to be continued")
        if not counts.total():
            raise InvalidRequest("empty_prompt", "the prompt holds neither text nor an image")
        for kind, capability, words in _MEDIA:
            if counts[kind] and capability not in info.capabilities:
                raise Unsupported(
                    f"no_{kind}_input", f"{info.model_name} understands no {words}, the prompt holds {counts[kind]}"
                )
        pictures = counts["image"]
        if pictures > 1 and model.CAPABILITY_MULTI_IMAGE not in info.capabilities:
            raise Unsupported(
                "no_multi_image", f"{info.model_name} takes one image a prompt, this one holds {pictures}"
            )
        _check_count("too_many_images", "images", pictures, info.media_limits.max_images or MAX_IMAGES)
        _check_count("too_many_clips", "audio and video parts", counts["audio"] + counts["video"], MAX_CLIPS)

    def _check_raw(
        self, request: model.GenerateRequest | model.LikelihoodRequest, info: model.GetModelInfoResponse
    ) -> None:
        if model.CAPABILITY_RAW_PROMPT not in info.capabilities:
            raise Unsupported("no_raw_prompt", f"{info.model_name} takes no raw_prompt: send messages")
        if request.messages:
            raise InvalidRequest("two_prompts", "there are messages beside a raw_prompt: send one of them")
        raw = request.raw_prompt
        if not (raw.text or raw.tokens.ids):
            raise InvalidRequest("empty_prompt", "the raw_prompt has neither text nor tokens")

    def _check_config(self, config: model.GenerationConfig, info: model.GetModelInfoResponse) -> None:
        if config.HasField("max_output_tokens") and config.max_output_tokens == 0:
            raise InvalidRequest("zero_tokens", "max_output_tokens is 0: ask for at least 1")
        temperature = config.temperature
        if not math.isfinite(temperature) or temperature < 0:
            raise InvalidRequest(
                "bad_temperature", f"temperature is {temperature}: 0 or above", value=str(temperature), limit="0"
            )
        if config.HasField("top_p") and not 0 < config.top_p <= 1:
            raise InvalidRequest(
                "bad_top_p", f"top_p is {config.top_p}: above 0 and at most 1", value=str(config.top_p), limit="1"
            )
        if "" in config.stop:
            raise InvalidRequest("empty_stop", "a stop string is empty: it would end every output at once")
        _check_count("too_many_stops", "stop strings", len(config.stop), MAX_STOP)
        _check_count("too_many_logprobs", "alternatives per token", config.top_logprobs, MAX_TOP_LOGPROBS)
        if config.top_logprobs and model.CAPABILITY_OUTPUT_LOGPROBS not in info.capabilities:
            raise Unsupported("no_logprobs", f"{info.model_name} reports no log-probabilities")
        self._check_thinking(config, info)
        sampled = config.temperature > 0
        if sampled and config.HasField("seed") and model.CAPABILITY_SEED not in info.capabilities:
            raise Unsupported("no_seed", f"{info.model_name} cannot repeat a seeded sample: leave the seed unset")

    def _check_thinking(self, config: model.GenerationConfig, info: model.GetModelInfoResponse) -> None:
        for name, capability, words in _SWITCHES:
            if config.HasField(name) and capability not in info.capabilities:
                raise Unsupported(f"no_{name}", f"{info.model_name} {words}: leave {name} unset")
        if config.HasField("thinking_budget") and not config.thinking_budget:
            raise InvalidRequest("zero_budget", "thinking_budget is 0: ask for at least 1, or set thinking to false")
        if config.HasField("thinking_budget") and config.HasField("thinking") and not config.thinking:
            raise InvalidRequest("thinking_conflict", "thinking is false beside a thinking_budget: leave one unset")

    def _check_format(self, request: model.GenerateRequest, info: model.GetModelInfoResponse) -> None:
        asked = request.config.response_format
        capability, words = _FORMATS.get(asked.WhichOneof("kind"), (None, ""))
        if capability and capability not in info.capabilities:
            raise Unsupported("no_response_format", f"{info.model_name} cannot keep an answer {words}")
        try:
            response_format.check(asked)
        except response_format.FormatError as error:
            raise InvalidRequest("bad_response_format", f"response_format: {' '.join(str(error).split())}") from error
        if request.config.stop:
            raise InvalidRequest("format_conflict", "stop strings beside a response_format: leave one unset")
        if request.modality == model.MODALITY_IMAGE:
            raise Unsupported("no_image_format", "an image has no response_format: leave it unset")


def _whole(response: model.GenerateResponse) -> model.GenerateResponse:
    if not response.parts and response.finish_reason != model.FINISH_REASON_CONTENT_FILTER:
        response.parts.add(text="")
    return response


def _apart(request: model.GenerateRequest) -> list[model.GenerateRequest]:
    """Returns a request for each output; they differ in their seeds."""
    requests = []
    for offset in range(request.samples):
        one = model.GenerateRequest()
        one.CopyFrom(request)
        one.samples = 0
        if one.config.HasField("seed"):
            one.config.seed = (one.config.seed + offset) % 2**64
        requests.append(one)
    return requests


def _together(outputs: Sequence[Output]) -> model.GenerateResponse:
    """Returns one response of several outputs; raises the first failure where all have failed."""
    response = model.GenerateResponse()
    for output in outputs:
        result = response.samples.add()
        if isinstance(output, BaseException):
            if not isinstance(output, Exception):
                raise output
            result.status.CopyFrom(status_proto(status_of(output)))
            continue
        if output.HasField("prompt"):
            response.prompt.CopyFrom(output.prompt)
            output.ClearField("prompt")
        # The two messages have the same fields, under the same numbers.
        result.output.MergeFromString(_whole(output).SerializeToString())
    first = outputs[0]
    if isinstance(first, Exception) and not any(result.HasField("output") for result in response.samples):
        raise first
    return response


def _check_samples(request: model.GenerateRequest, info: model.GetModelInfoResponse) -> None:
    if request.samples <= 1:
        return
    if model.CAPABILITY_SAMPLES not in info.capabilities:
        raise Unsupported("no_samples", f"{info.model_name} gives one output for a request: leave samples unset")
    if request.modality == model.MODALITY_IMAGE:
        raise Unsupported("no_image_samples", "images are drawn one by one: leave samples unset")
    _check_count("too_many_samples", "outputs", request.samples, info.max_samples)


def _check_prompt_wanted(
    request: model.GenerateRequest | model.LikelihoodRequest, info: model.GetModelInfoResponse
) -> None:
    if request.return_prompt and model.CAPABILITY_RENDERED_PROMPT not in info.capabilities:
        raise Unsupported(
            "no_rendered_prompt", f"{info.model_name} does not show what it is given: leave return_prompt unset"
        )


def _check_raw_generate(request: model.GenerateRequest) -> None:
    for name in ("thinking", "thinking_budget", "chat_template_arguments"):
        if request.config.HasField(name):
            raise InvalidRequest("raw_prompt_conflict", f"{name} is for a chat template, which a raw_prompt has not")
    if request.modality == model.MODALITY_IMAGE:
        raise Unsupported("no_raw_image", "an image is drawn from messages, not from a raw_prompt")


def _check_last(message: model.Message, info: model.GetModelInfoResponse) -> None:
    """Makes sure that a conversation ends in a question, or in the beginning of an answer that can be continued."""
    if message.role == model.ROLE_SYSTEM:
        raise InvalidRequest("last_not_user", "the last message is not the user's: there is nothing to answer")
    if message.role == model.ROLE_USER:
        if message.reasoning:
            raise InvalidRequest("reasoning_not_last", "the user's message has reasoning, and is not to be continued")
        return
    if model.CAPABILITY_ANSWER_PREFIX not in info.capabilities:
        raise Unsupported(
            "no_answer_prefix", f"{info.model_name} continues no answers: end the conversation with the user's message"
        )
    if any(part.WhichOneof("kind") != "text" for part in message.parts):
        raise InvalidRequest("bad_answer_prefix", "the beginning of the answer is not text alone")
    if message.reasoning and model.CAPABILITY_REASONING not in info.capabilities:
        raise Unsupported("no_reasoning", f"{info.model_name} does not reason: leave the answer's reasoning out")
    if not message.reasoning and not any(part.text for part in message.parts):
        raise InvalidRequest("bad_answer_prefix", "the beginning of the answer is empty: end with the user's message")


def _check_count(reason: str, things: str, count: int, limit: int) -> None:
    if count > limit:
        raise InvalidRequest(reason, f"{count} {things}, the limit is {limit}", limit=str(limit), value=str(count))


def _checked_part(part: model.Part, where: str) -> str:
    """Returns the kind of a part that can be looked at."""
    kind = part.WhichOneof("kind")
    if kind is None:
        if len(UnknownFieldSet(part)):
            raise Unsupported("unknown_part", f"{where} is of a kind that this server does not know")
        raise InvalidRequest("empty_part", f"{where}: no text, image, audio or video is set")
    if kind == "text":
        return kind
    medium = getattr(part, kind)
    if not medium.data:
        raise InvalidRequest(f"bad_{kind}", f"{where}: the {kind} has no bytes")
    if kind != "image" and medium.HasField("span"):
        _check_span(medium.span, where)
    if kind == "video" and medium.HasField("sampling"):
        _check_sampling(medium.sampling, where)
    return kind


def _check_span(span: model.TimeSpan, where: str) -> None:
    start, end = (each.seconds + each.nanos / 1e9 for each in (span.start, span.end))
    if start < 0 or (span.HasField("end") and end <= start):
        raise InvalidRequest("bad_span", f"{where}: its span is {start:g} to {end:g} seconds")


def _check_sampling(sampling: model.FrameSampling, where: str) -> None:
    policy = sampling.WhichOneof("policy")
    if policy is None:
        raise InvalidRequest("bad_sampling", f"{where}: its sampling has neither count nor per_second")
    value = getattr(sampling, policy)
    if not (math.isfinite(value) and value > 0):
        raise InvalidRequest("bad_sampling", f"{where}: {policy} of its sampling is {value:g}: above 0")
    if policy == "count" and sampling.max_count:
        raise InvalidRequest("bad_sampling", f"{where}: its sampling has count and max_count: leave one unset")
