"""The one place where a model's response is held against its request and the contract."""

from __future__ import annotations

import math
from collections.abc import Iterable

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from orchestrator.engine.wire import Request, Response

_TOKEN_BYTES = 1024
"""More than any vocabulary's longest token."""
_SPARE_BYTES = 64 * 1024
_ROUNDING = 1e-6
"""What a sum of log-probabilities may be above 0 by rounding alone."""


def checked(response: Response | None, request: Request) -> Response:
    """Returns a response that the contract allows as an answer to the request.

    Args:
        response: What came; None where its bytes are no such message.
        request: What was sent.

    Raises:
        CallError: INTERNAL with reason `bad_response`; the message says what is wrong.
    """
    if response is None:
        defect = f"its bytes are no {request.method}Response"
    elif isinstance(response, model.LikelihoodResponse):
        defect = _likelihood(response, request)
    else:
        defect = _generate(response, request)
    if response is None or defect:
        raise CallError(
            grpc.StatusCode.INTERNAL, "bad_response", f"the server's response breaks the contract: {defect}"
        )
    return response


def cut_in_reasoning(response: Response) -> bool:
    """Whether the output limit ended a response before its answer began."""
    return (
        isinstance(response, model.GenerateResponse)
        and response.finish_reason == model.FINISH_REASON_MAX_TOKENS
        and bool(response.reasoning or response.usage.reasoning_tokens)
        and not any(part.text.strip() or part.HasField("image") for part in response.parts)
    )


def _generate(response: model.GenerateResponse, request: Request) -> str:
    if response.finish_reason not in _FINISHED:
        return f"finish_reason is {response.finish_reason or 'not set'}"
    if not response.parts and response.finish_reason != model.FINISH_REASON_CONTENT_FILTER:
        return "it has no part; a model that said nothing has one empty text"
    size = len(response.reasoning)
    for part in response.parts:
        match part.WhichOneof("kind"):
            case "text":
                size += len(part.text)
            case "image" if request.modality != model.MODALITY_IMAGE:
                return "it has an image, and text was asked for"
            case "image" if not part.image.data:
                return "an image has no bytes"
            case None:
                return "a part is neither text nor image"
    limit = request.max_output_tokens
    if limit and size > limit * _TOKEN_BYTES + _SPARE_BYTES:
        return f"it has {size:,} characters, and {limit:,} tokens were asked for at most"
    if limit and len(response.logprobs) > limit:
        return f"it has {len(response.logprobs):,} log-probabilities, and {limit:,} tokens were asked for at most"
    usage = response.usage
    if usage.reasoning_tokens > usage.output_tokens:
        return f"it has {usage.reasoning_tokens:,} reasoning tokens among {usage.output_tokens:,} output tokens"
    if usage.cached_tokens > usage.input_tokens:
        return f"it has {usage.cached_tokens:,} cached tokens among {usage.input_tokens:,} input tokens"
    return _tokens(response.logprobs)


def _likelihood(response: model.LikelihoodResponse, request: Request) -> str:
    if len(response.scores) != request.continuations:
        return f"it has {len(response.scores)} scores for {request.continuations} continuations"
    for place, score in enumerate(response.scores):
        if not _plausible(score.logprob):
            return f"scores[{place}].logprob is {score.logprob}"
        if not score.token_count:
            return f"scores[{place}].token_count is 0"
        if defect := _tokens(score.tokens):
            return f"scores[{place}]: {defect}"
    return ""


def _tokens(tokens: Iterable[model.TokenLogprob]) -> str:
    for token in tokens:
        for each in (token, *token.alternatives):
            if not _plausible(each.logprob):
                return f"the logprob of a token is {each.logprob}"
    return ""


def _plausible(logprob: float) -> bool:
    return math.isfinite(logprob) and logprob <= _ROUNDING


_FINISHED = set(model.FinishReason.values()) - {model.FINISH_REASON_UNSPECIFIED}
