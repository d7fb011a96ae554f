"""Settings of decoding that all endpoints share, in the contract's form."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean_openai_front.errors import refuse
from lyncean_openai_front.forms import BEYOND, Sampling

MAX_CHOICES = 64
"""Choices of one request; each is a call of its own."""


@contextmanager
def in_range() -> Iterator[None]:
    """Refuses values that the contract cannot carry."""
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise refuse("bad_field", f"a value is out of range: {error}") from None


def set_sampling(
    config: model.GenerationConfig, form: Sampling, limit: int | None, seed: int | None, claims: Collection[int]
) -> None:
    """Sets what a request says of decoding.

    Args:
        config: Target.
        form: The request.
        limit: Output tokens.
        seed: Of this choice.
        claims: Capabilities of the model server. One before another endpoint is given fields beyond the contract.

    Raises:
        CallError: UNIMPLEMENTED for a setting that the model server cannot obey.
    """
    values = {
        "max_output_tokens": limit,
        "temperature": form.temperature,
        "top_p": form.top_p,
        "top_k": 0 if form.top_k == -1 else form.top_k,  # -1 keeps all at vLLM and SGLang
        "seed": seed,
    }
    for name, value in values.items():
        if value is not None:
            setattr(config, name, value)
    if form.stop is not None:
        config.stop.extend([form.stop] if isinstance(form.stop, str) else form.stop)
    for name in BEYOND:
        value = getattr(form, name)
        if value is not None and model.CAPABILITY_EXTRA_BODY in claims:
            config.extra_body.update({name: value})
        elif value is not None:
            raise unsupported(name)


def set_effort(config: model.GenerationConfig, effort: str | None, claims: Collection[int]) -> None:
    """Sets how much a model reasons: `none` turns it off, a level goes to what knows levels.

    That is the endpoint behind a proxy, else the chat template, which refuses a variable that it does not have.

    Raises:
        CallError: UNIMPLEMENTED where neither is there, or reasoning cannot be turned off.
    """
    if effort is None:
        return
    if model.CAPABILITY_EXTRA_BODY in claims:
        config.extra_body.update({"reasoning_effort": effort})
    elif effort == "none" and model.CAPABILITY_THINKING in claims:
        config.thinking = False
    elif effort == "none" and model.CAPABILITY_REASONING not in claims:
        return
    elif effort != "none" and model.CAPABILITY_CHAT_TEMPLATE_ARGUMENTS in claims:
        config.chat_template_arguments.update({"reasoning_effort": effort})
    else:
        raise unsupported("reasoning_effort")


def unsupported(name: str) -> CallError:
    """Returns the refusal of a field that no setting of the contract stands for."""
    message = f"{name}: the contract behind this server has no such setting; leave it out"
    return refuse("field_unsupported", message, grpc.StatusCode.UNIMPLEMENTED)
