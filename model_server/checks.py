"""Checks of requests: refuses those that no server could answer and those outside a model's capabilities."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from google.protobuf.unknown_fields import UnknownFieldSet

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest, Unsupported
from lyncean.vocabulary import response_format
from model_server.parts import content
from model_server.refusals import Info, check_count, require
from model_server.tool_checks import check_tools, check_turns

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
"""Fields of GenerationConfig, the capability that each needs, and the refusal without it."""

_FORMATS: dict[str | None, tuple[model.Capability.ValueType, str]] = {
    "choices": (model.CAPABILITY_ANSWER_CHOICES, "to choices"),
    "regex": (model.CAPABILITY_ANSWER_REGEX, "to a regular expression"),
    "json_schema": (model.CAPABILITY_ANSWER_JSON_SCHEMA, "to a JSON schema"),
}
"""Kinds of formats, the capability that each needs, and the object of the refusal without it."""

MEDIA = (
    ("image", model.CAPABILITY_IMAGE_INPUT, "images"),
    ("audio", model.CAPABILITY_AUDIO_INPUT, "audio"),
    ("video", model.CAPABILITY_VIDEO_INPUT, "videos"),
)
"""Kinds of parts, the capability that each needs, and their name in the refusal without it."""

Request = model.GenerateRequest | model.LikelihoodRequest


async def check_generate(request: model.GenerateRequest, info: Info) -> None:
    """Makes sure that a Generate request can be answered by a model of this description.

    Raises:
        InvalidRequest: No server could answer it.
        Unsupported: It is outside the model's capabilities.
    """
    require(info, model.CAPABILITY_GENERATE, "no_generate", "only scores continuations: use Likelihood")
    check_tools(request, info)
    _check_prompt(request, info)
    _check_config(request.config, info)
    if request.config.HasField("response_format"):
        await asyncio.to_thread(_check_format, request, info)
    if request.modality == model.MODALITY_IMAGE:
        require(info, model.CAPABILITY_IMAGE_OUTPUT, "no_image_output", "makes no images")
    elif request.modality not in (model.MODALITY_UNSPECIFIED, model.MODALITY_TEXT):
        raise Unsupported("unknown_modality", f"modality {request.modality} is not known to this server")
    if request.samples > 1:
        require(info, model.CAPABILITY_SAMPLES, "no_samples", "gives one output for a request: leave samples unset")
        if request.modality == model.MODALITY_IMAGE:
            raise Unsupported("no_image_samples", "images are drawn one by one: leave samples unset")
        check_count("too_many_samples", "outputs", request.samples, info.max_samples)


def check_likelihood(request: model.LikelihoodRequest, info: Info) -> None:
    """Makes sure that a Likelihood request can be answered by a model of this description.

    Raises:
        InvalidRequest: No server could answer it.
        Unsupported: It is outside the model's capabilities.
    """
    require(info, model.CAPABILITY_LIKELIHOOD, "no_likelihood", "does not score continuations: use Generate")
    _check_prompt(request, info)
    count = len(request.continuations)
    if request.score_prompt and (count or not request.HasField("raw_prompt")):
        raise InvalidRequest("bad_score_prompt", "score_prompt needs a raw_prompt and no continuations")
    if count and request.raw_prompt.HasField("tokens"):
        raise InvalidRequest(
            "continuation_of_tokens", "no text can be tokenized together with a raw_prompt of tokens: send its text"
        )
    if not count and not request.score_prompt:
        raise InvalidRequest("no_continuations", "there is no continuation to score: send at least one")
    check_count("too_many_continuations", "continuations", count, MAX_CONTINUATIONS)
    for index, text in enumerate(request.continuations):
        if not text:
            raise InvalidRequest("empty_continuation", f"continuation {index} is empty", index=str(index))


def _check_prompt(request: Request, info: Info) -> None:
    if request.HasField("raw_prompt"):
        _check_raw(request, info)
    else:
        _check_messages(request.messages, info)
    if request.return_prompt:
        objection = "does not show what it is given: leave return_prompt unset"
        require(info, model.CAPABILITY_RENDERED_PROMPT, "no_rendered_prompt", objection)


def _check_raw(request: Request, info: Info) -> None:
    require(info, model.CAPABILITY_RAW_PROMPT, "no_raw_prompt", "takes no raw_prompt: send messages")
    if request.messages:
        raise InvalidRequest("two_prompts", "there are messages beside a raw_prompt: send one of them")
    if not (request.raw_prompt.text or request.raw_prompt.tokens.ids):
        raise InvalidRequest("empty_prompt", "the raw_prompt has neither text nor tokens")
    if isinstance(request, model.GenerateRequest):
        for name in ("thinking", "thinking_budget", "chat_template_arguments"):
            if request.config.HasField(name):
                raise InvalidRequest(
                    "raw_prompt_conflict", f"{name} is for a chat template, which a raw_prompt has not"
                )
        if request.modality == model.MODALITY_IMAGE:
            raise Unsupported("no_raw_image", "an image is drawn from messages, not from a raw_prompt")


def _check_messages(messages: Sequence[model.Message], info: Info) -> None:
    if not messages:
        raise InvalidRequest("empty_prompt", "there are no messages: send at least one")
    for index, message in enumerate(messages):
        _check_role(message, index, info)
        for number, part in enumerate(message.parts):
            _check_part(part, f"message {index}, part {number}")
            for position, inner in enumerate(part.tool_result.content):
                _check_part(inner, f"message {index}, part {number}, content {position}")
    check_turns(messages, info)
    _check_last(messages, info)
    counts: Counter[str] = Counter()
    for part in content(messages):
        kind = str(part.WhichOneof("kind"))
        counts[kind] += kind != "text" or bool(part.text.strip())
    if not counts.total():
        raise InvalidRequest("empty_prompt", "the prompt holds neither text nor an image")
    for kind, capability, medium in MEDIA:
        if counts[kind]:
            refusal = f"understands no {medium}, the prompt holds {counts[kind]}"
            require(info, capability, f"no_{kind}_input", refusal)
    if counts["image"] > 1:
        refusal = f"takes one image a prompt, this one holds {counts['image']}"
        require(info, model.CAPABILITY_MULTI_IMAGE, "no_multi_image", refusal)
    check_count("too_many_images", "images", counts["image"], info.media_limits.max_images or MAX_IMAGES)
    check_count("too_many_clips", "audio and video parts", counts["audio"] + counts["video"], MAX_CLIPS)


def _check_role(message: model.Message, index: int, info: Info) -> None:
    if message.role not in (model.ROLE_SYSTEM, model.ROLE_USER, model.ROLE_ASSISTANT, model.ROLE_TOOL):
        raise InvalidRequest("no_role", f"message {index} has no role that this server knows")
    if message.role == model.ROLE_SYSTEM and index:
        raise InvalidRequest("system_not_first", f"message {index} is a system message: only the first may be one")
    if message.role == model.ROLE_SYSTEM and info.system_messages == model.SYSTEM_MESSAGES_REFUSED:
        raise Unsupported(
            "no_system_messages", f"{info.model_name} takes no system messages: put the words into the user's"
        )
    if not message.parts:
        raise InvalidRequest("empty_message", f"message {index} has no parts")


def _check_last(messages: Sequence[model.Message], info: Info) -> None:
    """Makes sure that a conversation ends in a question, or in the beginning of an answer that can be continued."""
    message = messages[-1]
    if message.role == model.ROLE_SYSTEM:
        raise InvalidRequest("last_not_user", "the last message is not the user's: there is nothing to answer")
    if message.role in (model.ROLE_USER, model.ROLE_TOOL):
        return
    objection = "continues no answers: end the conversation with the user's message"
    require(info, model.CAPABILITY_ANSWER_PREFIX, "no_answer_prefix", objection)
    if len(messages) == 1:
        raise InvalidRequest("bad_answer_prefix", "there is no message before the beginning of the answer: send one")
    if any(part.WhichOneof("kind") != "text" for part in message.parts):
        raise InvalidRequest("bad_answer_prefix", "the beginning of the answer is not text alone")
    if message.reasoning:
        objection = "does not reason: leave the answer's reasoning out"
        require(info, model.CAPABILITY_REASONING, "no_reasoning", objection)
    elif not any(part.text for part in message.parts):
        raise InvalidRequest("bad_answer_prefix", "the beginning of the answer is empty: end with the user's message")


def _check_part(part: model.Part, where: str) -> None:
    """Makes sure that a part is of a known kind, is not empty, and has a valid span and sampling."""
    kind = part.WhichOneof("kind")
    if kind is None:
        if len(UnknownFieldSet(part)):
            raise Unsupported("unknown_part", f"{where} is of a kind that this server does not know")
        raise InvalidRequest("empty_part", f"{where}: no text, image, audio or video is set")
    if kind in ("text", "tool_call", "tool_result"):
        return
    medium = getattr(part, kind)
    if not medium.data:
        raise InvalidRequest(f"bad_{kind}", f"{where}: the {kind} has no bytes")
    if kind != "image" and medium.HasField("span"):
        _check_span(medium.span, where)
    if kind == "video" and medium.HasField("sampling"):
        _check_sampling(medium.sampling, where)


def _check_span(span: model.TimeSpan, where: str) -> None:
    start, end = (time.seconds + time.nanos / 1e9 for time in (span.start, span.end))
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


def _check_config(config: model.GenerationConfig, info: Info) -> None:
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
    check_count("too_many_stops", "stop strings", len(config.stop), MAX_STOP)
    check_count("too_many_logprobs", "alternatives per token", config.top_logprobs, MAX_TOP_LOGPROBS)
    if config.top_logprobs:
        require(info, model.CAPABILITY_OUTPUT_LOGPROBS, "no_logprobs", "reports no log-probabilities")
    for name, capability, objection in _SWITCHES:
        if config.HasField(name):
            require(info, capability, f"no_{name}", f"{objection}: leave {name} unset")
    if config.HasField("thinking_budget") and not config.thinking_budget:
        raise InvalidRequest("zero_budget", "thinking_budget is 0: ask for at least 1, or set thinking to false")
    if config.HasField("thinking_budget") and config.HasField("thinking") and not config.thinking:
        raise InvalidRequest("thinking_conflict", "thinking is false beside a thinking_budget: leave one unset")
    if temperature > 0 and config.HasField("seed"):
        require(info, model.CAPABILITY_SEED, "no_seed", "cannot repeat a seeded sample: leave the seed unset")


def _check_format(request: model.GenerateRequest, info: Info) -> None:
    wanted = request.config.response_format
    capability, restriction = _FORMATS.get(wanted.WhichOneof("kind"), (None, ""))
    if capability:
        require(info, capability, "no_response_format", f"cannot keep an answer {restriction}")
    try:
        response_format.check(wanted)
    except response_format.FormatError as error:
        raise InvalidRequest("bad_response_format", f"response_format: {' '.join(str(error).split())}") from error
    if request.config.stop:
        raise InvalidRequest("format_conflict", "stop strings beside a response_format: leave one unset")
    if request.modality == model.MODALITY_IMAGE:
        raise Unsupported("no_image_format", "an image has no response_format: leave it unset")
