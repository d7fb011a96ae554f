"""Likelihood: sums, tokens, and what a score may depend on."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from lyncean.model.v1 import model_pb2 as model
from orchestrator.conformance.check import check
from orchestrator.conformance.server import Server, text_of
from orchestrator.conformance.verdicts import Broken, NotApplicable, applies, wants

PROMPT = "What colour is the sky on a clear day?"
CANDIDATES = ("blue", "a deep green", "The answer is red.", "(A)", " yes", "7")
_JOINS = ("blue", " blue", "bluebird", "1234", "(A) blue", "été 🙂", "two\nlines")


@check
async def logprobs_are_logarithms(server: Server) -> None:
    """Numbers, none above 0, of at least one token each."""
    for text, score in zip(CANDIDATES, await server.likelihood([PROMPT], CANDIDATES), strict=True):
        wants(not math.isnan(score.logprob), f"the score of {text!r} is NaN")
        wants(score.logprob <= 1e-6, f"the score of {text!r} is {score.logprob}: above 0 is no log-probability")
        wants(score.token_count >= 1, f"{text!r} has token_count 0")


@check
async def sum_is_that_of_the_tokens(server: Server) -> None:
    """The score is the sum, the count is the length, and asking for tokens changes neither."""
    bare = await server.likelihood([PROMPT], CANDIDATES)
    full = await server.likelihood([PROMPT], CANDIDATES, tokens=True)
    for text, score, plain in zip(CANDIDATES, full, bare, strict=True):
        wants(
            len(score.tokens) == score.token_count, f"{text!r}: {len(score.tokens)} tokens, count {score.token_count}"
        )
        total = math.fsum(token.logprob for token in score.tokens)
        near = math.isclose(total, score.logprob, rel_tol=1e-4, abs_tol=1e-4)
        wants(near, f"{text!r}: the tokens add up to {total:.5f}, the score is {score.logprob:.5f}")
        wants(not plain.tokens, "tokens came that nobody asked for")
        same_score(server, f"{text!r} with and without return_tokens", plain, score)


@check
async def tokenization_joins(server: Server) -> None:
    """The tokens' bytes end in the continuation's: none is missing and none is cut."""
    for text, score in zip(_JOINS, await server.likelihood([PROMPT], _JOINS, tokens=True), strict=True):
        joined = b"".join(token.token for token in score.tokens)
        wants(bool(score.tokens), f"{text!r} has no tokens")
        wants(joined.endswith(text.encode()), f"the tokens of {text!r} are {joined!r}: they do not end in it")


@check
async def likelihood_usage_is_reported(server: Server) -> None:
    """Tokens of the prompt, and of all continuations."""
    request = model.LikelihoodRequest(
        messages=[model.Message(role=model.ROLE_USER, parts=[model.Part(text=PROMPT)])], continuations=CANDIDATES
    )
    answer = await server.call("Likelihood", request)
    scored = sum(score.token_count for score in answer.scores)
    wants(answer.usage.input_tokens > 0, "input_tokens is 0")
    wants(answer.usage.output_tokens == scored, f"output_tokens is {answer.usage.output_tokens}, scored were {scored}")


@check
async def agrees_with_greedy(server: Server) -> str:
    """What greedy decoding says is greedy, and more probable than the same with another ending."""
    compared = 0
    for prompt in (PROMPT, "Name a fruit.", "Is water wet? Answer yes or no.", "Count to five."):
        for limit in (1, 3):
            answer = await server.generate(prompt, max_output_tokens=limit)
            text = text_of(answer)
            if not text.strip() or "�" in text:
                continue
            said, other = await server.likelihood([prompt], [text, "qzx qzx qzx qzx qzx"])
            # Where the text is cut into other tokens than it was made of, there is nothing to compare.
            if said.token_count != answer.usage.output_tokens:
                continue
            wants(not other.is_greedy or text == "qzx qzx qzx qzx qzx", "nonsense is said to be greedy")
            compared += 1
            if said.is_greedy:
                return f"{text!r} is greedy by both methods"
    if not compared:
        raise NotApplicable("the model's own answers are cut into other tokens when they are scored")
    raise Broken(f"none of {compared} greedy answers is greedy when it is scored")


@check
async def order_does_not_matter(server: Server) -> None:
    """The same candidates forwards and backwards."""
    forwards = await server.likelihood([PROMPT], CANDIDATES)
    backwards = await server.likelihood([PROMPT], CANDIDATES[::-1])
    for text, one, other in zip(CANDIDATES, forwards, reversed(backwards), strict=True):
        same_score(server, f"{text!r} forwards and backwards", one, other)


@check
async def company_does_not_matter(server: Server) -> None:
    """Each candidate alone and among the others."""
    together = await server.likelihood([PROMPT], CANDIDATES)
    for text, one in zip(CANDIDATES, together, strict=True):
        alone = (await server.likelihood([PROMPT], [text]))[0]
        same_score(server, f"{text!r} alone and in a batch", alone, one)


@check
async def duplicates_score_alike(server: Server) -> None:
    """One candidate three times."""
    first, _, *others = await server.likelihood([PROMPT], ["blue", "red", "blue", "blue"])
    for other in others:
        same_score(server, "'blue' and 'blue'", first, other)


@check
async def batches_do_not_drift(server: Server) -> str:
    """Prompts of different lengths one by one and all at once."""
    prompts = [f"{'Think well. ' * number}{PROMPT}" for number in range(server.parallel)]
    one_by_one = [await server.likelihood([prompt], CANDIDATES[:3]) for prompt in prompts]
    at_once: Sequence[Sequence[model.ContinuationScore]] = await asyncio.gather(
        *(server.likelihood([prompt], CANDIDATES[:3]) for prompt in prompts)
    )
    worst = 0.0
    for number, (ones, others) in enumerate(zip(one_by_one, at_once, strict=True)):
        for one, other in zip(ones, others, strict=True):
            same_score(server, f"prompt {number} alone and among {len(prompts)}", one, other)
            if math.isfinite(one.logprob):
                worst = max(worst, abs(one.logprob - other.logprob))
    applies(len({round(ones[0].logprob, 9) for ones in one_by_one}) > 1, "the scores do not depend on the prompt")
    return f"at most {worst:.1e} nats apart"


def same_score(server: Server, what: str, one: model.ContinuationScore, other: model.ContinuationScore) -> None:
    """Raises `Broken` unless two scores of one continuation agree, in tokens and as near as the arithmetic allows."""
    counts = one.token_count == other.token_count
    wants(counts, f"{what}: {one.token_count} and {other.token_count} tokens")
    bound = server.tolerance * max(1, one.token_count)
    near = one.logprob == other.logprob or abs(one.logprob - other.logprob) <= bound
    wants(near, f"{what}: {one.logprob:.6f} and {other.logprob:.6f}, more than {bound:g} apart")
