"""Validates responses of model servers and scorers against the request and the contract."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import grpc

from lyncean.media.cell import damage as clip_damage
from lyncean.media.pictures import damage, pixel_count
from lyncean.media.types import Kind
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean.rpc.limits import MAX_DETAILS
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.wire import Request, Response
from orchestrator.samples import Answer, BadRowError, Call, Image, media_of

_TOKEN_BYTES = 1024
"""More than any vocabulary's longest token."""
_SPARE_BYTES = 64 * 1024
_ARGUMENT_BYTES, _OPAQUE_BYTES = 1 << 20, 4 << 20
"""The contract's bounds of a tool call's arguments and of a vendor's reasoning."""
_ROUNDING = 1e-6
"""Largest excess over 0 that rounding gives a sum of log-probabilities."""


def bad_response(defect: str) -> CallError:
    """Returns the failure of a peer whose answer breaks the contract."""
    return CallError(grpc.StatusCode.INTERNAL, "bad_response", defect)


def checked(response: Response | None, request: Request) -> Response:
    """Returns a response that the contract allows as an answer to the request.

    Args:
        response: The response; None if its bytes are not such a message.
        request: The request, as sent.

    Raises:
        CallError: INTERNAL with reason `bad_response`; the message names the defect.
    """
    if response is None:
        defect = f"its bytes are no {request.method}Response"
    elif isinstance(response, model.LikelihoodResponse):
        defect = _likelihood(response, request)
    else:
        defect = _generate(response, request)
    if response is None or defect:
        raise bad_response(f"the server's response breaks the contract: {defect}")
    return response


def checked_verdict(verdict: scorer.Verdict, request: scorer.ScoreRequest | None) -> None:
    """Validates a verdict against its item.

    Args:
        verdict: The scorer's verdict.
        request: The item that waits for it; None if no item with its key waits.

    Raises:
        CallError: INTERNAL with reason `bad_response`; the message names the defect.
    """
    defect = _verdict(verdict, request)
    if defect:
        raise bad_response(f"its verdict of {verdict.key!r}: {defect}")


def checked_summary(
    summary: scorer.Summary | None, sent: Mapping[str, int], metrics: Sequence[scorer.MetricSpec]
) -> scorer.Summary:
    """Returns a summary that counts the items that were sent and has the requested metrics.

    Args:
        summary: The scorer's summary; None if the stream had none.
        sent: Number of items sent by outcome; "" for those that the scorer was to score.
        metrics: The requested metrics.

    Raises:
        CallError: INTERNAL with reason `bad_response`; the message names the defect.
    """
    if summary is None:
        defect = "the stream ended without one"
    else:
        defect = _counts(summary.counts, sent) or _metrics(summary.metrics, metrics, sum(sent.values()))
    if summary is None or defect:
        raise bad_response(f"its summary: {defect}")
    return summary


def _verdict(verdict: scorer.Verdict, request: scorer.ScoreRequest | None) -> str:
    if request is None:
        return "no item with this key waits for one"
    if verdict.outcome not in _READ:
        return f"the outcome {verdict.outcome!r} is none of {', '.join(_READ)}"
    if verdict.HasField("score") is (verdict.outcome == Outcome.UNJUDGED):
        return f"it is {verdict.outcome} and has {'a' if verdict.HasField('score') else 'no'} score"
    if not all(map(math.isfinite, [verdict.score, *verdict.scores.values()])):
        return "a score is not finite"
    if len(verdict.details) > MAX_DETAILS:
        return f"its details have {len(verdict.details):,} characters, the limit is {MAX_DETAILS:,}"
    span = verdict.span
    if verdict.HasField("span") and not span.start <= span.end <= len(request.text):
        return f"its span is {span.start} to {span.end}, the answer has {len(request.text)} characters"
    return ""


def _counts(counts: scorer.Counts, sent: Mapping[str, int]) -> str:
    outcomes = {outcome: getattr(counts, outcome) for outcome in Outcome}
    for outcome, number in outcomes.items():
        known = sent.get(outcome, 0)
        if not known <= number <= known + sent.get("", 0):
            return f"it counts {number:,} items {outcome}, {known:,} were sent"
    if not counts.planned == sum(outcomes.values()) == sum(sent.values()):
        return f"it counts {counts.planned:,} items, {sum(sent.values()):,} were sent"
    return ""


def _metrics(results: Iterable[scorer.MetricResult], metrics: Sequence[scorer.MetricSpec], items: int) -> str:
    wanted = {(spec.name, spec.metric) for spec in metrics}
    overall = [(result.name, result.metric) for result in results if not result.labels]
    if sorted(overall) != sorted(wanted):
        return f"it has the metrics {_names(overall)}, {_names(wanted)} were asked for"
    for result in results:
        counts = result.counts
        if counts.planned > items or counts.planned != sum(getattr(counts, outcome) for outcome in Outcome):
            return f"the counts of metric {result.name!r} do not add up"
        interval = result.interval
        if not (math.isfinite(interval.low) and math.isfinite(interval.high) and interval.low <= interval.high):
            return f"the interval of metric {result.name!r} is [{interval.low}, {interval.high}]"
        cut = result.cut
        if not all(map(math.isfinite, (cut.whole, cut.low, cut.high))) or cut.low > cut.high:
            return f"with cut answers metric {result.name!r} is {cut.whole} in [{cut.low}, {cut.high}]"
    return ""


def _names(metrics: Iterable[tuple[str, str]]) -> str:
    return ", ".join(sorted(name for name, _ in metrics)) or "none"


def check_image(data: bytes, most_pixels: int = 0) -> None:
    """Holds back an image that no server could decode: the number of items must not depend on the server.

    Args:
        data: The file's bytes.
        most_pixels: The server's stated limit; 0 without one.

    Raises:
        BadRowError: With reason `bad_image` or `image_too_large`.
    """
    if why := damage(data):
        raise BadRowError("bad_image", f"an image is damaged: {why}")
    if most_pixels and (pixels := pixel_count(data)) > most_pixels:
        raise BadRowError(
            "image_too_large", f"an image has {pixels:,} pixels, the server states {most_pixels:,} at most"
        )


def check_stated(call: Call, info: model.GetModelInfoResponse) -> None:
    """Holds back a request that the server, by its own statement, refuses.

    Raises:
        BadRowError: With the reason that our servers refuse it with.
    """
    refuses = info.system_messages == model.SYSTEM_MESSAGES_REFUSED
    if refuses and any(message.role == model.ROLE_SYSTEM for message in call.messages):
        detail = "the prompt has a system message, and the server states that its model takes none"
        raise BadRowError("no_system_messages", detail)
    most = info.media_limits.max_images
    images = sum(isinstance(medium, Image) for medium in media_of(call.messages)) if most else 0
    if images > most:
        raise BadRowError("too_many_images", f"the prompt has {images:,} images, the server states {most:,} at most")


def check_clip(kind: Kind, data: bytes) -> None:
    """Holds back an audio or video file that no server could decode, as `check_image` does.

    Raises:
        BadRowError: With reason `bad_audio` or `bad_video`.
    """
    if why := clip_damage(kind, data):
        raise BadRowError(f"bad_{kind}", f"the {kind}: {why}")


def was_cut(response: Response) -> bool:
    """Returns whether the output limit ended a response."""
    return isinstance(response, model.GenerateResponse) and response.finish_reason == model.FINISH_REASON_MAX_TOKENS


def is_cut(answer: Answer, choices: Collection[str] = ()) -> bool:
    """Returns whether the output limit ended an answer; one held to choices is complete once it is one of them."""
    return answer.finish_reason == model.FINISH_REASON_MAX_TOKENS and answer.text not in choices


def cut_in_reasoning(response: Response) -> bool:
    """Returns whether the output limit ended a response before its answer began."""
    return (
        isinstance(response, model.GenerateResponse)
        and was_cut(response)
        and bool(response.reasoning or response.usage.reasoning_tokens)
        and _says_nothing(response)
    )


def called_tool(response: Response) -> bool:
    """Returns whether the model called a tool and wrote nothing before."""
    return (
        isinstance(response, model.GenerateResponse)
        and response.finish_reason == model.FINISH_REASON_TOOL_CALLS
        and _says_nothing(response)
    )


def _says_nothing(response: model.GenerateResponse) -> bool:
    return not any(part.text.strip() or part.HasField("image") or part.HasField("tool_call") for part in response.parts)


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
            case "image" if why := damage(part.image.data):
                return f"an image is damaged: {why}"
            case "tool_call" if request.tools:
                size += len(part.tool_call.name) + len(part.tool_call.arguments)
            case "image":
                pass
            case _:
                return "a part is neither text nor image" + (" nor tool call" if request.tools else "")
    if (request.tools or response.opaque) and (defect := _tool_calls(response)):
        return defect
    limit = request.max_output_tokens
    if limit and size > limit * _TOKEN_BYTES + _SPARE_BYTES:
        return f"it has {size:,} characters, and {limit:,} tokens were asked for at most"
    if limit and len(response.logprobs) > limit:
        return f"it has {len(response.logprobs):,} log-probabilities, and {limit:,} tokens were asked for at most"
    text = "".join(part.text for part in response.parts)
    if request.choices and response.finish_reason not in _CUT and text not in request.choices:
        return f"the answer is {text[:80]!r}, and one of {len(request.choices)} choices was asked for"
    usage = response.usage
    if usage.reasoning_tokens > usage.output_tokens:
        return f"it has {usage.reasoning_tokens:,} reasoning tokens among {usage.output_tokens:,} output tokens"
    if usage.cached_tokens > usage.input_tokens:
        return f"it has {usage.cached_tokens:,} cached tokens among {usage.input_tokens:,} input tokens"
    return _tokens(response.logprobs)


def _tool_calls(response: model.GenerateResponse) -> str:
    ids = [part.tool_call.id for part in response.parts if part.HasField("tool_call")]
    if "" in ids:
        return "a tool call has no id"
    if len(set(ids)) < len(ids):
        return "two tool calls have one id"
    if max((len(part.tool_call.arguments.encode()) for part in response.parts), default=0) > _ARGUMENT_BYTES:
        return f"the arguments of a tool call have more than {_ARGUMENT_BYTES:,} bytes"
    if len(response.opaque) > _OPAQUE_BYTES:
        return f"opaque has {len(response.opaque):,} bytes, the limit is {_OPAQUE_BYTES:,}"
    return ""


def _likelihood(response: model.LikelihoodResponse, request: Request) -> str:
    if len(response.scores) != request.continuations:
        return f"it has {len(response.scores)} scores for {request.continuations} continuations"
    for number, score in enumerate(response.scores):
        if not _plausible(score.logprob):
            return f"scores[{number}].logprob is {score.logprob}"
        if not score.token_count:
            return f"scores[{number}].token_count is 0"
        if defect := _tokens(score.tokens):
            return f"scores[{number}]: {defect}"
    return ""


def _tokens(tokens: Iterable[model.TokenLogprob]) -> str:
    for token in tokens:
        others = [other.logprob for other in token.top] + [other.logprob for other in token.alternatives]
        for logprob in (token.logprob, *others):
            if not _plausible(logprob):
                return f"the logprob of a token is {logprob}"
    return ""


def _plausible(logprob: float) -> bool:
    """Returns whether a number is a log-probability; minus infinity, of impossible text, is one."""
    return not math.isnan(logprob) and logprob <= _ROUNDING


_FINISHED = set(model.FinishReason.values()) - {model.FINISH_REASON_UNSPECIFIED}
_CUT = (model.FINISH_REASON_MAX_TOKENS, model.FINISH_REASON_CONTENT_FILTER)
"""Ends of an output by which it need not keep its format."""
_READ = (Outcome.SCORED, Outcome.UNPARSED, Outcome.REFUSED, Outcome.UNJUDGED)
"""Outcomes of an answer that was read; the others are of items without an answer."""
