"""Likelihood by vLLM's prompt log-probabilities: the continuation is sent as the beginning of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, InvalidRequest, Unsupported
from model_server.backend import continuation_score

Send = Callable[[dict[str, Any], str | None], Awaitable[Any]]
Token = tuple[int, str, float, int]
"""Number, text, log-probability, rank."""

CONTINUED = {"add_generation_prompt": False, "continue_final_message": True}
"""Fields by which vLLM goes on from an assistant's last message."""
_PROMPT = {"prompt_logprobs": 0, "max_tokens": 1, "add_generation_prompt": True}
_JOINED = _PROMPT | CONTINUED


async def score(
    send: Send, continuations: Sequence[str], with_tokens: bool, *, begun: bool = False, reasoning: str = ""
) -> model.LikelihoodResponse:
    """Scores each continuation in a request of its own, beside one for the prompt alone.

    Each of them computes the whole prompt: vLLM does not read its prefix cache for a request that asks for prompt
    log-probabilities (`SamplingParams.skip_reading_prefix_cache`).

    Args:
        send: Sends the conversation, with an assistant's beginning where one is given.
        continuations: What to score.
        with_tokens: Whether the tokens are wanted.
        begun: Whether the conversation ends in the beginning of the answer.
        reasoning: What stands before that beginning; many templates would leave it out without a word.

    Raises:
        InternalFailure: If the endpoint does not give what it should.
        InvalidRequest: If a continuation is no token, or the template changes it.
    """
    sends = [send(dict(_JOINED if begun else _PROMPT), None), *(send(dict(_JOINED), text) for text in continuations)]
    tasks = [asyncio.ensure_future(each) for each in sends]
    try:
        prompt_reply, *replies = await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # after a failure nobody wants the others' answers
            task.cancel()
    prompt = _tokens(prompt_reply)
    shown = "".join(token[1] for token in prompt)
    if reasoning.strip() not in shown and "\ufffd" not in shown:
        raise Unsupported("no_reasoning", "the endpoint's chat template leaves out the reasoning of an answer")
    response = model.LikelihoodResponse()
    for text, reply in zip(continuations, replies, strict=True):
        owned = _owned(prompt, _tokens(reply), text)
        tokens = [(piece.encode(), logprob) for _, piece, logprob, _ in owned]
        greedy = all(token[3] == 1 for token in owned)
        response.scores.append(continuation_score(sum(value for _, value in tokens), tokens, greedy, with_tokens))
    response.usage.input_tokens = len(prompt) + 1
    response.usage.output_tokens = sum(each.token_count for each in response.scores)
    return response


def joined(messages: Sequence[dict[str, Any]], text: str | None, *, begun: bool) -> list[dict[str, Any]]:
    """Returns a conversation with a continuation, if there is one, behind the answer's beginning or in its place."""
    if text is None:
        return list(messages)
    if not begun:
        return [*messages, {"role": "assistant", "content": text}]
    *before, last = messages
    return [*before, last | {"content": last["content"] + text}]


def _owned(prompt: Sequence[Token], joined: Sequence[Token], text: str) -> Sequence[Token]:
    """The tokens that do not end inside the prompt.

    Both lists agree up to where the join changed a token; behind that place the prompt's
    remaining text says how far each joined token reaches.
    """
    same = 0
    while same < min(len(prompt), len(joined)) and prompt[same][0] == joined[same][0]:
        same += 1
    left = len("".join(token[1] for token in prompt[same:]))
    reach, start = 0, same
    for token in joined[same:]:
        reach += len(token[1])
        if reach > left:
            break
        start += 1
    owned = joined[start:]
    text_scored = "".join(token[1] for token in joined[same:])[left:]
    # A template may put a blank between its generation prefix and an assistant's words.
    if not owned or (text not in (text_scored, text_scored.lstrip()) and "\ufffd" not in text_scored):
        raise InvalidRequest(
            "continuation_changed",
            f"the endpoint's chat template or tokenizer turns the continuation {text!r} into {text_scored!r}",
        )
    return owned


def _tokens(reply: Any) -> list[Token]:
    """Reads the prompt's tokens; the first has no predecessor and is left out."""
    places = getattr(reply, "prompt_logprobs", None)
    if not isinstance(places, list) or len(places) < 2:
        raise InternalFailure("no_prompt_logprobs", "the endpoint gave no prompt log-probabilities")
    tokens: list[Token] = []
    for place in places[1:]:
        if not isinstance(place, dict) or len(place) != 1:
            raise InternalFailure("bad_prompt_logprobs", "the endpoint's prompt log-probabilities cannot be read")
        ((number, fact),) = place.items()
        tokens.append((int(number), str(fact["decoded_token"]), float(fact["logprob"]), int(fact.get("rank") or 0)))
    return tokens
