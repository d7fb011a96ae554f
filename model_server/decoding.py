"""The decoding configuration in force: defaults of unset fields, and the context limit."""

from __future__ import annotations

import random

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import OutOfRange


def effective_config(config: model.GenerationConfig) -> model.GenerationConfig:
    """Returns a copy with `temperature` set, and `seed` where tokens are sampled."""
    full = model.GenerationConfig()
    full.CopyFrom(config)
    full.temperature = config.temperature
    if full.temperature > 0 and not config.HasField("seed"):
        full.seed = random.getrandbits(63)
    return full


def limit_output(config: model.GenerationConfig, prompt: int, context: int, default: int) -> None:
    """Sets an unset `max_output_tokens` to what the context leaves, at most `default`.

    Args:
        config: Changed in place.
        prompt: Tokens of the prompt.
        context: Tokens of prompt and output together; 0 is no limit.
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
