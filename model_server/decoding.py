"""Rules that all backends share: defaults of unset fields, the context limit, reasoning split from the answer."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, OutOfRange
from lyncean.vocabulary.response_format import keeps


def effective_config(config: model.GenerationConfig) -> model.GenerationConfig:
    """Returns a copy with `temperature` set, and `seed` where tokens are sampled."""
    full = model.GenerationConfig()
    full.CopyFrom(config)
    full.temperature = config.temperature
    if full.temperature > 0 and not config.HasField("seed"):
        full.seed = random.getrandbits(63)
    return full


def struct_json(struct: Struct) -> dict[str, Any]:
    """Returns a Struct as a JSON object, whole numbers as integers: a template prints 4 and not 4.0."""

    def converted(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: converted(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [converted(inner) for inner in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    fields: dict[str, Any] = converted(json_format.MessageToDict(struct))
    return fields


def limit_output(config: model.GenerationConfig, prompt: int, context: int, default: int) -> None:
    """Sets an unset `max_output_tokens` to what the context leaves, at most `default`.

    Args:
        config: Changed in place.
        prompt: Tokens of the prompt.
        context: Tokens of prompt and output together; 0 means unlimited.
        default: Output limit of a request without one.

    Raises:
        OutOfRange: If prompt and output do not fit into the context.
    """
    if not config.HasField("max_output_tokens"):
        config.max_output_tokens = max(1, min(default, context - prompt if context else default))
    check_context(prompt, config.max_output_tokens, context)


def check_context(prompt: int, output: int, context: int) -> None:
    """Raises OutOfRange if so many tokens of prompt and output do not fit into the context."""
    total = prompt + output
    if context and total > context:
        raise OutOfRange(
            "context_exceeded",
            f"{prompt} prompt tokens and {output} of output are {total}, the model's context is {context}",
            limit=str(context),
            value=str(total),
        )


def check_kept(config: model.GenerationConfig, finish: model.FinishReason.ValueType, text: str) -> None:
    """Raises InternalFailure if a finished answer is not what `response_format` asks for."""
    finished = finish not in (model.FINISH_REASON_MAX_TOKENS, model.FINISH_REASON_CONTENT_FILTER)
    if config.HasField("response_format") and finished and not keeps(config.response_format, text):
        raise InternalFailure("format_not_kept", f"the model answered {text[:80]!r}, which response_format rules out")


class Marks(NamedTuple):
    """The marks around a model's reasoning in its output.

    Attributes:
        opens: The mark before it.
        closes: The mark after it.
        label: Text after `opens` that does not belong to the reasoning.
    """

    opens: str
    closes: str
    label: str = ""


MARKS = (
    Marks("<think>", "</think>"),  # Qwen, DeepSeek, GLM
    Marks("<|channel>", "<channel|>", "thought"),  # Gemma 4
    Marks("[THINK]", "[/THINK]"),  # Mistral
    Marks("◁think▷", "◁/think▷"),  # Kimi-VL
    Marks("<seed:think>", "</seed:think>"),  # Seed
)


THINKING_SWITCHES = ("enable_thinking", "thinking")
"""Variables of chat templates that turn reasoning on and off: Qwen, Gemma and GLM; DeepSeek and Granite."""


def split_reasoning(text: str, marks: Marks, *, inside: bool = False) -> tuple[str, str]:
    """Returns the reasoning at the beginning of an output, and the answer after it.

    Args:
        text: The output.
        marks: The marks around reasoning.
        inside: Whether the prompt ended with `opens`. An output with `closes` alone had a prompt that did.
    """
    head = text.lstrip()
    if head.startswith(marks.opens):
        text, inside = head.removeprefix(marks.opens), True
    if not inside and marks.closes not in text:
        return "", text
    reasoning, _, answer = text.partition(marks.closes)
    return reasoning.strip().removeprefix(marks.label).strip(), answer.lstrip()
