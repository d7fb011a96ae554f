"""Answers of the contract in the parts that all endpoints share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
import msgspec

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean_openai_front.errors import refuse
from lyncean_openai_front.forms import Sampling

_FINISH = {
    model.FINISH_REASON_END_OF_SEQUENCE: "stop",
    model.FINISH_REASON_STOP_STRING: "stop",
    model.FINISH_REASON_MAX_TOKENS: "length",
    model.FINISH_REASON_CONTENT_FILTER: "content_filter",
    model.FINISH_REASON_TOOL_CALLS: "tool_calls",
}


def apart(answer: model.GenerateResponse) -> list[model.GenerateResponse]:
    """Returns the outputs of a call, each as the answer to a call of its own.

    Raises:
        CallError: One of them failed.
    """
    if not answer.samples:
        return [answer]
    entries = []
    for result in answer.samples:
        if result.WhichOneof("result") != "output":
            raise CallError.from_status(result.status)
        # The two messages have the same fields, under the same numbers.
        one = model.GenerateResponse.FromString(result.output.SerializeToString())
        one.served_by.CopyFrom(answer.served_by)
        entries.append(one)
    return entries


def finished(answer: model.GenerateResponse, kinds: Sequence[str] = ("text",)) -> tuple[str, str]:
    """Returns the text of an answer, and why it ended; it may have parts of some kinds.

    Raises:
        CallError: INTERNAL for an answer that is not a finished text.
    """
    finish = _FINISH.get(answer.finish_reason)
    if finish is None or any(part.WhichOneof("kind") not in kinds for part in answer.parts):
        raise refuse("bad_response", "the model server's answer is not a finished text", grpc.StatusCode.INTERNAL)
    return "".join(part.text for part in answer.parts), finish


def token_entry(token: model.TokenLogprob, alternatives: int) -> dict[str, Any]:
    """Returns a token of the output with its log-probability and those of others at its place."""

    def entry(token: model.TokenLogprob | model.TopLogprob) -> dict[str, Any]:
        text = token.token.decode("utf-8", "replace")
        return {"token": text, "bytes": list(token.token), "logprob": max(token.logprob, -9999.0)}

    return entry(token) | {"top_logprobs": [entry(other) for other in (token.top or token.alternatives)[:alternatives]]}


def usage(answers: Sequence[model.GenerateResponse]) -> dict[str, Any]:
    """Returns what all choices cost; the prompt, which they share, counts once."""
    first = answers[0].usage
    output = sum(answer.usage.output_tokens for answer in answers)
    return {
        "prompt_tokens": first.input_tokens,
        "completion_tokens": output,
        "total_tokens": first.input_tokens + output,
        "prompt_tokens_details": {"cached_tokens": first.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": sum(answer.usage.reasoning_tokens for answer in answers)},
    }


def server_sent(form: Sampling, common: dict[str, Any], choices: Sequence[Any], usage: dict[str, Any]) -> list[bytes]:
    """Returns a chunk for each choice, and one of the usage if it is asked for, as server-sent events."""
    chunks = [{**common, "choices": [choice]} for choice in choices]
    if form.stream_options and form.stream_options.include_usage:
        chunks.append({**common, "choices": [], "usage": usage})
    return [b"data: %s\n\n" % msgspec.json.encode(chunk) for chunk in chunks] + [b"data: [DONE]\n\n"]
