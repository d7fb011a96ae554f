"""Likelihood by vLLM: the continuation is sent as the beginning of the answer.

Two ways lead to the same numbers. Listed tokens (`logprob_token_ids`) are looked up where the next token would be
sampled: the prompt is computed once and then read from the prefix cache. Prompt log-probabilities are what older
versions have, and each of them computes the whole prompt (`SamplingParams.skip_reading_prefix_cache`).
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
"""Sends the conversation with further fields and the beginning of an assistant's answer, "" for none."""
Token = tuple[int, str, float, int]
"""Number, text, log-probability, rank."""
Ids = tuple[int, ...]
Each = TypeVar("Each")

CONTINUED = {"add_generation_prompt": False, "continue_final_message": True}
"""Fields by which vLLM goes on from an assistant's last message."""
MOST_LISTED = 128
"""Tokens that vLLM looks up in one request (`MAX_LOGPROB_TOKEN_IDS`)."""
STEP_TOKENS = 64
"""What a request costs whose prompt is cached, in tokens of a prompt: the last block of the cache, and the rest."""
_IMPOSSIBLE = -9999.0
"""What vLLM writes in place of minus infinity."""

_BY_PROMPT = {"prompt_logprobs": 0, "max_tokens": 1}
WITH_IDS = {"return_token_ids": True}
"""Asks for the prompt's tokens by their numbers."""
_IDS = WITH_IDS | {"max_tokens": 1}
_LISTED = _IDS | {"logprobs": True, "temperature": 0, "repetition_penalty": 1.0, "min_p": 0.0}


class _NotListed(Exception):
    """The endpoint does not know listed tokens."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What may come behind some tokens.

    Attributes:
        greedy: The likeliest token.
        listed: Text and log-probability of each token that was asked for.
    """

    greedy: int
    listed: dict[int, tuple[str, float]]


class Scorer:
    """Scores continuations at one endpoint, and remembers which way it knows."""

    def __init__(self) -> None:
        self._lists = True

    async def score(
        self, send: Send, continuations: Sequence[str], with_tokens: bool, reasoning: str = ""
    ) -> model.LikelihoodResponse:
        """Scores each continuation.

        Args:
            send: Sends a request.
            continuations: What to score.
            with_tokens: Whether the tokens are wanted.
            reasoning: What stands before the answer's beginning; many templates would leave it out without a word.

        Raises:
            InternalFailure: If the endpoint does not give what it should.
            InvalidRequest: If a continuation is no token, or the template changes it.
            Unsupported: If the template leaves the reasoning out.
        """
        if self._lists:
            try:
                if found := await _by_listed_tokens(send, continuations, with_tokens, reasoning):
                    return found
            except _NotListed:
                self._lists = False
        return await _by_prompts(send, continuations, with_tokens, reasoning)


async def _by_listed_tokens(
    send: Send, continuations: Sequence[str], with_tokens: bool, reasoning: str
) -> model.LikelihoodResponse | None:
    """Walks the tree of the continuations' tokens, one depth after the other.

    Returns:
        The scores, or None where texts do not lead through the tree (a token changes where the prompt ends, or within
        a beginning of a continuation) or where its many steps would cost more than the prompts.

    Raises:
        _NotListed: The endpoint does not know listed tokens.
    """
    reply = await send(_IDS | (_BY_PROMPT if reasoning else {}), "")  # alone: the others find it in the cache
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
        wanted = [sorted({ids[len(each)] for ids in owned if ids[: len(each)] == each != ids}) for each in begun]
        found = await _all(
            _step(send, prompt + each, texts[each], ids) for each, ids in zip(begun, wanted, strict=True)
        )
        for each, step in zip(begun, found, strict=True):
            if step is None:
                return None
            steps[each] = step
            texts |= {(*each, token): texts[each] + text for token, (text, _) in step.listed.items()}
    if not all(_same(text, texts[ids]) for text, ids in zip(continuations, owned, strict=True)):
        return None
    response = model.LikelihoodResponse()
    for ids in owned:
        places = [(steps[ids[:depth]], token) for depth, token in enumerate(ids)]
        tokens = [(step.listed[token][0].encode(), step.listed[token][1]) for step, token in places]
        greedy = all(step.greedy == token for step, token in places)
        logprob = sum(value for _, value in tokens)
        response.scores.append(continuation_score(logprob, tokens, greedy, with_tokens, ids))
    return _counted(response, len(prompt))


async def _step(send: Send, before: Ids, text: str, wanted: Sequence[int]) -> _Step | None:
    """Asks what may come next; None where the text is not tokenized as the tokens before, or a token is impossible."""
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
            # The token that would be sampled comes first, then those listed, in their order and each once.
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
        Unsupported: If the endpoint, an older vLLM, does not tell them.
    """
    try:
        response.prompt.token_ids.extend(_prompt_ids(reply))
    except _NotListed:
        raise no_prompt() from None


def no_prompt() -> Unsupported:
    """Returns the failure of a request for the prompt's tokens, which older vLLMs do not tell."""
    return Unsupported(
        "no_rendered_prompt", "the endpoint does not tell the prompt's tokens: leave return_prompt unset"
    )


def _prompt_ids(reply: Any) -> Ids:
    ids = getattr(reply, "prompt_token_ids", None)
    if not isinstance(ids, list) or not ids or not all(isinstance(each, int) for each in ids):
        raise _NotListed
    return tuple(ids)


async def _all(calls: Iterable[Awaitable[Each]]) -> list[Each]:
    tasks = [asyncio.ensure_future(each) for each in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # after a failure nobody wants the others' answers
            task.cancel()


async def _by_prompts(
    send: Send, continuations: Sequence[str], with_tokens: bool, reasoning: str
) -> model.LikelihoodResponse:
    """Scores each continuation in a request of its own, beside one for the prompt alone."""
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
    response.usage.output_tokens = sum(each.token_count for each in response.scores)
    return response


def turns(messages: Sequence[dict[str, Any]], text: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns a conversation with the text at its end, and the fields that say whose turn it is.

    Args:
        messages: The conversation; the last message may be the beginning of an answer.
        text: Follows that beginning, or is one; "" for nothing more.
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
    """Whether what was scored is the text. A template may put a blank between its turn's beginning and the words."""
    return text in (scored, scored.lstrip())


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
    if not owned or not (_same(text, text_scored) or "\ufffd" in text_scored):
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
