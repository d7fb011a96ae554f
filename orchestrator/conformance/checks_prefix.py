"""Prompts that no template closes: answers begun in the conversation, and raw prompts."""

from __future__ import annotations

from collections.abc import Sequence

from lyncean.model.v1 import model_pb2 as model
from orchestrator.conformance.check import applies, check, wants
from orchestrator.conformance.server import CUT_CHARACTER, Server, text_of, user

QUESTION = user("What colour is the sky on a clear day?")
BEGUN = "The colour of a clear sky is"
_FIRST, _SECOND = " blue", " because of"


def begun(text: str, reasoning: str = "") -> list[model.Message]:
    """Returns a conversation that ends in the beginning of an answer."""
    answer = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text=text)], reasoning=reasoning)
    return [QUESTION, answer]


async def _continued(server: Server, text: str, tokens: int) -> model.GenerateResponse:
    config = model.GenerationConfig(max_output_tokens=tokens, temperature=0.0)
    response: model.GenerateResponse = await server.send(model.GenerateRequest(messages=begun(text), config=config))
    return response


async def _scored(server: Server, messages: list[model.Message], *texts: str) -> Sequence[model.ContinuationScore]:
    return await server.scores(model.LikelihoodRequest(messages=messages, continuations=texts))


@check
async def answers_are_continued(server: Server) -> str:
    """Eight tokens after a beginning, and four after it and the first four of them."""
    full, half = await _continued(server, BEGUN, 8), await _continued(server, BEGUN, 4)
    text, first = text_of(full), text_of(half)
    wants(not text.lstrip().startswith(BEGUN), f"the output repeats the beginning of the answer: {text[:80]!r}")
    if server.exact and first and first == first.rstrip() and CUT_CHARACTER not in first:
        rest = await _continued(server, BEGUN + first, 4)
        longer = rest.usage.input_tokens > half.usage.input_tokens
        wants(longer, f"{BEGUN + first!r} has no more input_tokens than {BEGUN!r}: is it in the prompt?")
        # Where the words are cut into other tokens than they were made of, there is nothing to compare.
        if rest.usage.input_tokens == half.usage.input_tokens + half.usage.output_tokens:
            continued = text_of(rest)
            same = text.removeprefix(first).startswith(continued.rstrip(CUT_CHARACTER))
            wants(same, f"after {BEGUN!r} it says {text!r}, and after that with {first!r} it says {continued!r}")
    return f"{text!r}"[:60]


@check
async def scores_stand_behind_the_beginning(server: Server) -> str:
    """A continuation of a beginning scores as much at once as in two halves."""
    (full,) = await _scored(server, begun(BEGUN), _FIRST + _SECOND)
    (first,) = await _scored(server, begun(BEGUN), _FIRST)
    (second,) = await _scored(server, begun(BEGUN + _FIRST), _SECOND)
    alike = full.token_count == first.token_count + second.token_count
    applies(alike, "the halves are cut into other tokens than the whole")
    apart = abs(full.logprob - first.logprob - second.logprob)
    bound = server.tolerance * max(1, full.token_count)
    wants(
        apart <= bound,
        f"{_FIRST + _SECOND!r} scores {full.logprob:.5f} after the beginning of an answer, its halves one after "
        f"the other {first.logprob + second.logprob:.5f}",
    )
    return f"{apart:.1e} nats apart"


@check
async def reasoning_of_the_beginning_is_seen(server: Server) -> None:
    """The same continuations after two thoughts."""
    thoughts = ("It is day, so it is blue.", "No. At night the sky is black, so I say black.")
    one, other = [await _scored(server, begun(BEGUN, thought), " blue", " black") for thought in thoughts]
    differ = any(a.logprob != b.logprob for a, b in zip(one, other, strict=True))
    wants(differ, "the scores do not depend on Message.reasoning")


@check
async def raw_prompts_are_scored(server: Server) -> str:
    """Every token of a text, and the same by its tokens."""
    text = f"{BEGUN}{_FIRST}"
    request = model.LikelihoodRequest(raw_prompt=model.RawPrompt(text=text), score_prompt=True)
    reply = await server.send(request)
    tokens = reply.prompt_tokens
    wants(len(tokens) > 1, f"prompt_tokens has {len(tokens)} tokens of {text!r}")
    shown = b"".join(token.token for token in tokens).decode("utf-8", "replace")
    wants(text in shown or CUT_CHARACTER in shown, f"the tokens of {text!r} are together {shown[:80]!r}")
    wants(reply.usage.input_tokens == len(tokens), f"{len(tokens)} tokens, input_tokens is {reply.usage.input_tokens}")
    wants(not tokens[0].logprob and not tokens[0].top, "the first token has a score, and nothing stands before it")
    for token in tokens[1:]:
        wants(len(token.top) >= 1, f"the token {token.token!r} has no top")
        wants(token.logprob <= token.top[0].logprob + server.tolerance, f"{token.token!r} is above its top token")
    if all(token.HasField("token_id") for token in tokens):
        ids = model.TokenIds(ids=[token.token_id for token in tokens])
        again = await server.send(model.LikelihoodRequest(raw_prompt=model.RawPrompt(tokens=ids), score_prompt=True))
        wants(len(again.prompt_tokens) == len(tokens), f"{len(tokens)} tokens are {len(again.prompt_tokens)} when sent")
        pairs = zip(tokens, again.prompt_tokens, strict=True)
        apart = max(abs(one.logprob - other.logprob) for one, other in pairs)
        wants(apart <= server.tolerance * 10, f"the scores are {apart:.1e} nats others when the tokens are sent")
    return f"{len(tokens)} tokens"
