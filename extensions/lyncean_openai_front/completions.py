"""Completions of raw prompts in the contract's messages, and back: `echo` with `logprobs` scores the prompt itself."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean_openai_front.answer import finished, server_sent, usage
from lyncean_openai_front.errors import refuse
from lyncean_openai_front.forms import Completion
from lyncean_openai_front.sampling import MAX_CHOICES, in_range, set_sampling

_MAX_LOGPROBS = 20
_END = ("", None, None)


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls for one prompt.

    Attributes:
        score: Scores the prompt; None if the request asks for no scores.
        generate: One call for each choice; empty if nothing is to be generated.
        text: The prompt's text; None for one of tokens.
    """

    score: model.LikelihoodRequest | None
    generate: Sequence[model.GenerateRequest]
    text: str | None


def calls(completion: Completion, claims: Collection[int] = ()) -> list[Calls]:
    """Returns what is to be called for each prompt; with a seed, choice i is drawn with seed + i.

    Args:
        completion: The request.
        claims: Capabilities of the model server.

    Raises:
        CallError: INVALID_ARGUMENT for values that the contract cannot carry.
    """
    prompts = _prompts(completion.prompt)
    if completion.n < 1 or not 1 <= len(prompts) * completion.n <= MAX_CHOICES:
        raise refuse("bad_n", f"{len(prompts)} prompts with {completion.n} choices each: 1 to {MAX_CHOICES} in all")
    if completion.logprobs is not None and not 0 <= completion.logprobs <= _MAX_LOGPROBS:
        raise refuse("bad_field", f"logprobs is {completion.logprobs}: 0 to {_MAX_LOGPROBS}")
    if completion.max_tokens < 0 or (completion.max_tokens == 0 and not completion.echo):
        raise refuse("bad_field", f"max_tokens is {completion.max_tokens}: ask for at least 1, or for an echo")
    scores = completion.echo and completion.logprobs is not None
    if scores and (completion.logprobs or 0) > 1:
        raise refuse(
            "field_unsupported",
            "logprobs above 1 with echo: of a prompt's tokens the contract has the most probable alternative alone",
            grpc.StatusCode.UNIMPLEMENTED,
        )
    parts = []
    for raw in prompts:
        generate = [_generate(completion, raw, choice, claims) for choice in range(completion.n)]
        score = scores or (completion.echo and raw.HasField("tokens"))
        parts.append(
            Calls(
                model.LikelihoodRequest(raw_prompt=raw, score_prompt=True) if score else None,
                generate if completion.max_tokens else (),
                raw.text if raw.HasField("text") else None,
            )
        )
    return parts


def _prompts(prompt: Any) -> list[model.RawPrompt]:
    """Returns the prompts: a text, tokens, or a list of either."""
    one = isinstance(prompt, str) or (isinstance(prompt, list) and prompt and all(_is_token(token) for token in prompt))
    prompts = []
    for token in [prompt] if one else prompt if isinstance(prompt, list) else ():
        if isinstance(token, str):
            prompts.append(model.RawPrompt(text=token))
        elif isinstance(token, list) and all(_is_token(number) for number in token):
            prompts.append(model.RawPrompt(tokens=model.TokenIds(ids=token)))
        else:
            prompts = []
            break
    if not prompts:
        raise refuse("bad_field", "prompt is neither text nor tokens, nor a list of either")
    return prompts


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32


def _generate(
    completion: Completion, raw: model.RawPrompt, choice: int, claims: Collection[int]
) -> model.GenerateRequest:
    request = model.GenerateRequest(raw_prompt=raw)
    seed = None if completion.seed is None else (completion.seed + choice) % 2**64
    with in_range():
        set_sampling(request.config, completion, completion.max_tokens or None, seed, claims)
    if completion.logprobs is not None:
        request.config.top_logprobs = max(1, completion.logprobs)
    return request


@dataclass(frozen=True, slots=True)
class Answers:
    """Responses to the calls for one prompt."""

    score: model.LikelihoodResponse | None
    generated: Sequence[model.GenerateResponse]


def completion_of(completion: Completion, prompts: Sequence[Calls], answers: Sequence[Answers]) -> dict[str, Any]:
    """Returns the completion of these answers.

    Raises:
        CallError: INTERNAL for an answer that completions cannot carry.
    """
    choices: list[dict[str, Any]] = []
    counts = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    for request, answer in zip(prompts, answers, strict=True):
        outputs: Sequence[model.GenerateResponse | None] = answer.generated or [None]
        for generated in outputs:
            choices.append(_choice(len(choices), completion, request, answer.score, generated))
        spent = usage(answer.generated) if answer.generated else {}
        prompt = answer.score.usage.input_tokens if answer.score else 0
        counts["prompt_tokens"] += spent.get("prompt_tokens", prompt)
        counts["completion_tokens"] += spent.get("completion_tokens", 0)
    counts["total_tokens"] = counts["prompt_tokens"] + counts["completion_tokens"]
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": completion.model,
        "choices": choices,
        "usage": counts,
    }


def events(completion: Completion, response: dict[str, Any]) -> list[bytes]:
    """Returns the answer as server-sent events: one for each choice, as ModelService does not stream."""
    common = {name: response[name] for name in ("id", "object", "created", "model")}
    return server_sent(completion, common, response["choices"], response["usage"])


def _choice(
    index: int,
    completion: Completion,
    request: Calls,
    score: model.LikelihoodResponse | None,
    generated: model.GenerateResponse | None,
) -> dict[str, Any]:
    text, finish, tokens = "", "length", []
    if completion.echo:
        prompt = list(score.prompt_tokens) if score else []
        joined = b"".join(token.token for token in prompt).decode("utf-8", "replace")
        text = joined if request.text is None else request.text
        tokens = [_entry(token, completion.logprobs or 0, first=not number) for number, token in enumerate(prompt)]
    if generated is not None:
        answer, finish = finished(generated)
        text += answer
        tokens += [_entry(token, completion.logprobs or 0) for token in generated.logprobs]
        if completion.echo and generated.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE:
            tokens.append(_END)  # clients count: the tokens of the prompt, then one for each that they asked for
    logprobs = None
    if completion.logprobs is not None:
        offsets, offset = [], 0
        for token, _, _ in tokens:
            offsets.append(offset)
            offset += len(token)
        logprobs = {
            "tokens": [token for token, _, _ in tokens],
            "token_logprobs": [value for _, value, _ in tokens],
            "top_logprobs": [top for _, _, top in tokens],
            "text_offset": offsets,
        }
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}


def _entry(
    token: model.TokenLogprob, alternatives: int, *, first: bool = False
) -> tuple[str, float | None, dict[str, float] | None]:
    """Returns a token's text, log-probability and alternatives; the first of a prompt has none."""
    if first:
        return _text(token.token), None, None
    top = {_text(other.token): max(other.logprob, -9999.0) for other in token.top[:alternatives]}
    top |= {_text(other.token): max(other.logprob, -9999.0) for other in token.alternatives[:alternatives]}
    return _text(token.token), max(token.logprob, -9999.0), top


def _text(token: bytes) -> str:
    """Returns a token's text, or its bytes as OpenAI writes those that are no text."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)
