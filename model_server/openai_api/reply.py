"""Translates an endpoint's chat completions into the contract's responses."""

from __future__ import annotations

from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, Unsupported
from model_server.decoding import MARKS, split_reasoning
from model_server.openai_api.errors import status_in
from model_server.openai_api.likelihood import put_prompt
from model_server.openai_api.tools import add_calls
from model_server.openai_api.upstream import note_origin

_FINISH = {
    "stop": model.FINISH_REASON_END_OF_SEQUENCE,
    "length": model.FINISH_REASON_MAX_TOKENS,
    "content_filter": model.FINISH_REASON_CONTENT_FILTER,
    "tool_calls": model.FINISH_REASON_TOOL_CALLS,
    "function_call": model.FINISH_REASON_TOOL_CALLS,
}
_SHOWN = 80
"""Characters of a reply that is not JSON which its failure quotes."""
_LONGEST_WORD = 23
_STOPPED = (model.FINISH_REASON_STOP_STRING, model.FINISH_REASON_END_OF_SEQUENCE)
"""Finish reasons at a stop string; some endpoints do not distinguish it from the model's own end."""
REASONING = ("reasoning", "reasoning_content")
"""Fields with the model's reasoning; the second is the older name."""
_MATCHED = ("stop_reason", "matched_stop")
"""Fields in which vLLM and SGLang name the matched stop string; a number is an end token of the model."""


def ended_in_reasoning(response: model.GenerateResponse, config: model.GenerationConfig) -> bool:
    """Returns True if a stop string ended the reasoning, to which the contract does not apply it."""
    return bool(config.stop and response.reasoning and not response.parts and response.finish_reason in _STOPPED)


def read(reply: Any, config: model.GenerationConfig, index: int = 0) -> model.GenerateResponse:
    """Reads a choice of a chat completion.

    Raises:
        InternalFailure: If it is not a chat completion.
        StatusError: If it carries a failure in place of an answer.
        Unsupported: If requested log-probabilities are missing.
    """
    if isinstance(reply, str):
        raise _not_json(reply)
    if not getattr(reply, "choices", None):
        raise status_in(reply) or InternalFailure("bad_reply", "the endpoint answered without a choice")
    if failure := status_in(reply.choices[index]):
        raise failure
    try:
        return _read(reply, config, reply.choices[index])
    except (AttributeError, TypeError, ValueError) as error:
        raise InternalFailure("bad_reply", f"the endpoint's reply cannot be read: {error}") from error


def _not_json(page: str) -> InternalFailure:
    """Returns the failure of a reply that does not say it is JSON: its first words, without long ones such as keys."""
    begins = " ".join(word if len(word) <= _LONGEST_WORD else "***" for word in page[:1000].split())[:_SHOWN]
    kind = "a page" if "<html" in page[:1000].lower() else "text"
    return InternalFailure(
        "bad_reply",
        f"the endpoint answered with {kind} in place of JSON: {begins!r}; is --base-url right, and is a login needed?",
    )


def _read(reply: Any, config: model.GenerationConfig, choice: Any) -> model.GenerateResponse:
    response = model.GenerateResponse(effective_config=config)
    finish = _FINISH.get(choice.finish_reason)
    if finish is None:
        raise InternalFailure(
            "bad_reply", f"the endpoint ended with {choice.finish_reason!r}, which means nothing here"
        )
    refusal = getattr(choice.message, "refusal", None)
    if any(isinstance(getattr(choice, name, None), str) for name in _MATCHED):
        finish = model.FINISH_REASON_STOP_STRING
    note_origin(response.served_by, reply)
    response.finish_reason = model.FINISH_REASON_CONTENT_FILTER if refusal else finish
    response.reasoning, text = _apart(choice.message)
    text = refusal or text
    if text:
        response.parts.add(text=text)
    add_calls(response, choice.message)
    if reply.usage:
        _count(reply.usage, response.usage)
    if getattr(reply, "prompt_token_ids", None):  # present on request
        put_prompt(response, reply)
    if config.top_logprobs and text and response.finish_reason != model.FINISH_REASON_CONTENT_FILTER:
        content = getattr(choice.logprobs, "content", None)
        if content is None:
            raise Unsupported("no_logprobs", "the endpoint gave no log-probabilities")
        for token in content:
            entry = response.logprobs.add(token=_bytes(token), logprob=token.logprob)
            for other in token.top_logprobs or ():
                entry.top.add(token=_bytes(other), logprob=other.logprob)
    return response


def _apart(message: Any) -> tuple[str, str]:
    """Returns reasoning and answer: from separate fields, from a list as Mistral sends it, or by marks in the text.

    vLLM and SGLang leave the marks in the text if they run without a reasoning parser.
    """
    thoughts = next((value for name in REASONING if isinstance(value := getattr(message, name, None), str)), "")
    content = message.content
    if isinstance(content, list):
        thoughts += "".join(_words(part["thinking"]) for part in content if part["type"] == "thinking")
        content = _words([part for part in content if part["type"] == "text"])
    content = content or ""
    if not thoughts:
        for marks in MARKS:
            thoughts, answer = split_reasoning(content, marks)
            if answer != content:
                return encodable(thoughts), encodable(answer)
    return encodable(thoughts.strip()), encodable(content.lstrip() if thoughts else content)


def cut_at_stop(response: model.GenerateResponse, config: model.GenerationConfig) -> None:
    """Cuts an answer at its first stop string, if the request to the endpoint had none."""
    text = "".join(part.text for part in response.parts)
    if positions := [position for stop in config.stop if (position := text.find(stop)) >= 0]:
        del response.parts[:]
        response.parts.add(text=text[: min(positions)])
        response.finish_reason = model.FINISH_REASON_STOP_STRING


def without_end(response: model.GenerateResponse) -> None:
    """Removes the end token from the counts: vLLM and SGLang count it, and report its log-probability."""
    usage = response.usage
    if response.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE and usage.output_tokens:
        usage.output_tokens -= 1
        usage.reasoning_tokens = min(usage.reasoning_tokens, usage.output_tokens)
        del response.logprobs[usage.output_tokens :]


def _words(parts: Any) -> str:
    return parts if isinstance(parts, str) else "".join(part["text"] for part in parts)


def encodable(text: str) -> str:
    """Returns text that can be encoded: replaces lone surrogates, which a gateway may leave by cutting UTF-16."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(counts: Any, usage: model.Usage) -> None:
    """Sets the usage that an endpoint reports. Gemini and Grok count reasoning apart from the completion."""
    prompt, completion = counts.prompt_tokens or 0, counts.completion_tokens or 0
    reasoning = getattr(getattr(counts, "completion_tokens_details", None), "reasoning_tokens", None) or 0
    cached = getattr(getattr(counts, "prompt_tokens_details", None), "cached_tokens", None) or 0
    if reasoning > completion or (counts.total_tokens or 0) >= prompt + completion + reasoning > prompt + completion:
        completion += reasoning
    usage.input_tokens, usage.output_tokens = prompt, completion
    usage.reasoning_tokens, usage.cached_tokens = reasoning, min(cached, prompt)


def _bytes(token: Any) -> bytes:
    return bytes(token.bytes) if token.bytes is not None else str(token.token).encode(errors="replace")
