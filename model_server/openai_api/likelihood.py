"""Likelihood by vLLM: sends the continuation as the beginning of the answer.

Two methods give the same numbers. Listed tokens (`logprob_token_ids`) are looked up where the next token would be
sampled: the prompt is computed once and then read from the prefix cache. Older versions have only
prompt log-probabilities, each request of which computes the whole prompt (`SamplingParams.skip_reading_prefix_cache`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, InvalidRequest, Unsupported
from model_server.backend import continuation_score

Send = Callable[[dict[str, Any], str], Coroutine[Any, Any, Any]]
"""Sends the conversation with further fields and the beginning of an assistant's answer; "" for none."""
Token = tuple[int, str, float, int]
"""Number, text, log-probability, rank."""
Ids = tuple[int, ...]
Value = TypeVar("Value")

CONTINUED = {"add_generation_prompt": False, "continue_final_message": True}
"""Fields by which vLLM continues an assistant's last message."""
MOST_LISTED = 128
"""Tokens that vLLM looks up in one request (`MAX_LOGPROB_TOKEN_IDS`)."""
STEP_TOKENS = 64
"""Cost of a request with a cached prompt, in prompt tokens: the last block of the cache, and overhead."""
_IMPOSSIBLE = -9999.0
"""vLLM's value for minus infinity."""

_BY_PROMPT = {"prompt_logprobs": 0, "max_tokens": 1}
WITH_IDS = {"return_token_ids": True}
"""Requests the ids of the prompt's tokens."""
_IDS = WITH_IDS | {"max_tokens": 1}
_LISTED = _IDS | {"logprobs": True, "temperature": 0, "repetition_penalty": 1.0, "min_p": 0.0}


class _NotListed(Exception):
    """The endpoint does not know listed tokens."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The next tokens after some tokens.

    Attributes:
        greedy: The likeliest token.
        listed: Text and log-probability of each requested token.
    """

    greedy: int
    listed: dict[int, tuple[str, float]]


class Scorer:
    """Scores continuations at one endpoint, and remembers the method that it supports."""

    def __init__(self) -> None:
        self._lists = True

    async def score(
        self, send: Send, continuations: Sequence[str], with_tokens: bool, reasoning: str = ""
    ) -> model.LikelihoodResponse:
        """Scores each continuation.

        Args:
            send: Sends a request.
            continuations: The texts to score.
            with_tokens: Whether the tokens are wanted.
            reasoning: Reasoning before the answer's beginning; many templates would silently leave it out.

        Raises:
            InternalFailure: If the endpoint's reply lacks its log-probabilities.
            InvalidRequest: If a continuation is not a token, or the template changes it.
            Unsupported: If the template leaves the reasoning out.
        """
        if self._lists:
            try:
                if response := await _by_listed_tokens(send, continuations, with_tokens, reasoning):
                    return response
            except _NotListed:
                self._lists = False
        return await _by_prompts(send, continuations, with_tokens, reasoning)


async def _by_listed_tokens(
    send: Send, continuations: Sequence[str], with_tokens: bool, reasoning: str
) -> model.LikelihoodResponse | None:
    """Walks the tree of the continuations' tokens, one depth after the other.

    Returns:
        The scores; None if texts do not tokenize along the tree (a token changes at the end of the prompt, or within
        a prefix of a continuation), or if its many steps would cost more than the prompts.

    Raises:
        _NotListed: The endpoint does not know listed tokens.
    """
    reply = await send(
        _IDS | (_BY_PROMPT if reasoning else {}), ""
    )  # alone first: the other requests find it in the cache
    prompt = _prompt_ids(reply)
    if reasoning:
        _refuse_lost(reasoning, _tokens(reply))
    joined = await _all(send(_IDS, text) for text in continuations)
    owned = [ids[len(prompt) :] for ids in map(_prompt_ids, joined) if ids[: len(prompt)] == prompt]
    if len(owned) < len(continuations) or not all(owned):
        return None
    depths = [sorted({ids[:depth] for ids in owned if len(ids) > depth}) for depth in range(max(map(len, owned)))]
    if sum(map(len, depths)) * STEP_TOKENS > len(continuations) * len(prompt):
        return None
    steps: dict[Ids, _Step] = {}
    texts: dict[Ids, str] = {(): ""}
    for begun in depths:
        wanted = [
            sorted({ids[len(prefix)] for ids in owned if ids[: len(prefix)] == prefix != ids}) for prefix in begun
        ]
        replies = await _all(
            _step(send, prompt + prefix, texts[prefix], ids) for prefix, ids in zip(begun, wanted, strict=True)
        )
        for prefix, step in zip(begun, replies, strict=True):
            if step is None:
                return None
            steps[prefix] = step
            texts |= {(*prefix, token): texts[prefix] + text for token, (text, _) in step.listed.items()}
    if not all(_same(text, texts[ids]) for text, ids in zip(continuations, owned, strict=True)):
        return None
    response = model.LikelihoodResponse()
    for ids in owned:
        path = [(steps[ids[:depth]], token) for depth, token in enumerate(ids)]
        tokens = [(step.listed[token][0].encode(), step.listed[token][1]) for step, token in path]
        greedy = all(step.greedy == token for step, token in path)
        logprob = sum(value for _, value in tokens)
        response.scores.append(continuation_score(logprob, tokens, greedy, with_tokens, ids))
    return _counted(response, len(prompt))


async def _step(send: Send, before: Ids, text: str, wanted: Sequence[int]) -> _Step | None:
    """Asks for the next tokens; None if the text does not tokenize as the tokens before, or a token is impossible."""
    blocks = [wanted[start : start + MOST_LISTED] for start in range(0, len(wanted), MOST_LISTED)]
    replies = await _all(send(_LISTED | {"logprob_token_ids": block}, text) for block in blocks)
    step = _Step(-1, {})
    for block, reply in zip(blocks, replies, strict=True):
        if _prompt_ids(reply) != before:
            return None
        try:
            choice = reply.choices[0]
            (greedy,) = choice.token_ids
            entries = choice.logprobs.content[0].top_logprobs
            # The token that would be sampled comes first, then the listed ones, in their order and without repeats.
            order = [greedy, *(token for token in block if token != greedy)]
            facts = {
                token: (str(entry.token), float(entry.logprob)) for token, entry in zip(order, entries, strict=True)
            }
        except (AttributeError, LookupError, TypeError, ValueError):
            raise _NotListed from None
        step = _Step(greedy, step.listed | {token: facts[token] for token in block})
    return step if all(logprob > _IMPOSSIBLE for _, logprob in step.listed.values()) else None


def put_prompt(response: model.GenerateResponse | model.LikelihoodResponse, reply: Any) -> None:
    """Puts the prompt's tokens into a response.

    Raises:
        Unsupported: If the endpoint, an older vLLM, does not report them.
    """
    try:
        response.prompt.token_ids.extend(_prompt_ids(reply))
    except _NotListed:
        raise no_prompt() from None


def no_prompt() -> Unsupported:
    """Returns the failure of a request for the prompt's tokens, which older vLLMs do not report."""
    return Unsupported(
        "no_rendered_prompt", "the endpoint does not tell the prompt's tokens: leave return_prompt unset"
    )


def _prompt_ids(reply: Any) -> Ids:
    ids = getattr(reply, "prompt_token_ids", None)
    if not isinstance(ids, list) or not ids or not all(isinstance(number, int) for number in ids):
        raise _NotListed
    return tuple(ids)


async def _all(calls: Iterable[Awaitable[Value]]) -> list[Value]:
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # after a failure the other answers are not needed
            task.cancel()


async def _by_prompts(
    send: Send, continuations: Sequence[str], with_tokens: bool, reasoning: str
) -> model.LikelihoodResponse:
    """Scores each continuation in a request of its own, with one more for the prompt alone."""
    texts = ["", *continuations]
    prompt_reply, *replies = await _all(send(_BY_PROMPT, text) for text in texts)
    prompt = _tokens(prompt_reply)
    _refuse_lost(reasoning, prompt)
    response = model.LikelihoodResponse()
    for text, reply in zip(continuations, replies, strict=True):
        owned = _owned(prompt, _tokens(reply), text)
        tokens = [(piece.encode(), logprob) for _, piece, logprob, _ in owned]
        greedy = all(token[3] == 1 for token in owned)
        logprob, ids = sum(value for _, value in tokens), [token[0] for token in owned]
        response.scores.append(continuation_score(logprob, tokens, greedy, with_tokens, ids))
    return _counted(response, len(prompt) + 1)


def _counted(response: model.LikelihoodResponse, prompt: int) -> model.LikelihoodResponse:
    response.usage.input_tokens = prompt
    response.usage.output_tokens = sum(score.token_count for score in response.scores)
    return response


def turns(messages: Sequence[dict[str, Any]], text: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns a conversation with the text at its end, and the fields that mark whose turn it is.

    Args:
        messages: The conversation; the last message may be the beginning of an answer.
        text: Continues that beginning, or is one; "" adds nothing.
    """
    *before, last = messages
    if last["role"] == "assistant":
        return [*before, last | {"content": last["content"] + text}], CONTINUED
    if text:
        return [*messages, {"role": "assistant", "content": text}], CONTINUED
    return [*messages], {"add_generation_prompt": True}


def _refuse_lost(reasoning: str, prompt: Sequence[Token]) -> None:
    shown = "".join(token[1] for token in prompt)
    if reasoning.strip() not in shown and "\ufffd" not in shown:
        raise Unsupported("no_reasoning", "the endpoint's chat template leaves out the reasoning of an answer")


def _same(text: str, scored: str) -> bool:
    """Returns True if the scored text is the requested one, apart from a blank that a template may put before it."""
    return text in (scored, scored.lstrip())


def _owned(prompt: Sequence[Token], joined: Sequence[Token], text: str) -> Sequence[Token]:
    """Returns the tokens that do not end inside the prompt.

    Both lists agree up to the first token that the join changed; from there on, the length of the
    prompt's remaining text decides whether a joined token ends inside the prompt.
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
    if not owned or not (_same(text, text_scored) or "\ufffd" in text_scored):
        raise InvalidRequest(
            "continuation_changed",
            f"the endpoint's chat template or tokenizer turns the continuation {text!r} into {text_scored!r}",
        )
    return owned


def _tokens(reply: Any) -> list[Token]:
    """Reads the prompt's tokens; the first has no predecessor and is left out."""
    entries = getattr(reply, "prompt_logprobs", None)
    if not isinstance(entries, list) or len(entries) < 2:
        raise InternalFailure("no_prompt_logprobs", "the endpoint gave no prompt log-probabilities")
    tokens: list[Token] = []
    for entry in entries[1:]:
        if not isinstance(entry, dict) or len(entry) != 1:
            raise InternalFailure("bad_prompt_logprobs", "the endpoint's prompt log-probabilities cannot be read")
        ((number, fact),) = entry.items()
        tokens.append((int(number), str(fact["decoded_token"]), float(fact["logprob"]), int(fact.get("rank") or 0)))
    return tokens
