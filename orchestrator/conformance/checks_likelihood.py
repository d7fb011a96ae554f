"""Likelihood: sums, tokens, and what a score may depend on."""

from __future__ import annotations

import math

from orchestrator.conformance.check import Broken, applies, check, wants
from orchestrator.conformance.server import CUT_CHARACTER, Server, at_once, same_answers, same_score, scoring, text_of

PROMPT = "What colour is the sky on a clear day?"
CANDIDATES = ("blue", "a deep green", "The answer is red.", "(A)", " yes", "7")
_JOINS = ("blue", " blue", "bluebird", "1234", "(A) blue", "été 🙂", "two\nlines")
_NONSENSE = "qzx qzx qzx qzx qzx"


@check
async def logprobs_are_logarithms(server: Server) -> None:
    """Numbers, none above 0, of at least one token each; minus infinity is one."""
    for text, score in zip(CANDIDATES, await server.likelihood([PROMPT], CANDIDATES), strict=True):
        wants(not math.isnan(score.logprob), f"the score of {text!r} is NaN")
        wants(score.logprob <= 1e-6, f"the score of {text!r} is {score.logprob}: above 0 is not a log-probability")
        wants(score.token_count >= 1, f"{text!r} has token_count 0")


@check
async def sum_is_that_of_the_tokens(server: Server) -> None:
    """The score is the sum, the count is the length, and asking for tokens changes neither."""
    bare = await server.likelihood([PROMPT], CANDIDATES)
    full = await server.likelihood([PROMPT], CANDIDATES, tokens=True)
    for text, score, plain in zip(CANDIDATES, full, bare, strict=True):
        number = len(score.tokens)
        wants(number == score.token_count, f"{text!r}: {number} tokens, count {score.token_count}")
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
    response = await server.send(scoring([PROMPT], CANDIDATES))
    scored, usage = sum(score.token_count for score in response.scores), response.usage
    wants(usage.input_tokens > 0, "input_tokens is 0")
    wants(usage.output_tokens == scored, f"output_tokens is {usage.output_tokens}, scored were {scored}")


@check
async def agrees_with_greedy(server: Server) -> str:
    """The text of greedy decoding is greedy when it is scored, and nonsense is not."""
    compared = 0
    for prompt in (PROMPT, "Name a fruit.", "Is water wet? Answer yes or no.", "Count to five."):
        for limit in (1, 3):
            response = await server.generate(prompt, max_output_tokens=limit)
            text = text_of(response)
            if not text.strip() or CUT_CHARACTER in text:
                continue
            score, other = await server.likelihood([prompt], [text, _NONSENSE])
            # Where the text is cut into other tokens than it was made of, there is nothing to compare.
            if score.token_count != response.usage.output_tokens:
                continue
            wants(not other.is_greedy or text == _NONSENSE, "nonsense is said to be greedy")
            compared += 1
            if score.is_greedy:
                return f"{text!r} is greedy by both methods"
    applies(compared > 0, "the model's own answers are cut into other tokens when they are scored")
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
    for text, among in zip(CANDIDATES, await server.likelihood([PROMPT], CANDIDATES), strict=True):
        (alone,) = await server.likelihood([PROMPT], [text])
        same_score(server, f"{text!r} alone and in a batch", alone, among)


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
    apart = await same_answers(server, [scoring([prompt], CANDIDATES[:3]) for prompt in prompts], at_once)
    short, long = [await server.likelihood([prompt], CANDIDATES[:3]) for prompt in (prompts[0], prompts[-1])]
    differ = any(one.logprob != other.logprob for one, other in zip(short, long, strict=True))
    applies(differ, "the scores do not depend on the prompt")
    return f"at most {apart:.1e} nats apart"
