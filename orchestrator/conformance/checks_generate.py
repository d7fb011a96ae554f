"""Generate: greedy and sampled decoding, what ends an output, what is reported of it."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from orchestrator.conformance.check import applies, check, wants
from orchestrator.conformance.server import CUT_CHARACTER, Server, enum_name, generation, text_of, user

PROMPT = "Describe a harbour at dawn in two sentences."
RIDDLE = "A bat and a ball cost 1.10. The bat costs 1.00 more than the ball. What does the ball cost?"
_MARKS = ("<think>", "</think>", "[THINK]", "[/THINK]", "<|channel>", "<channel|>", "◁/think▷")
"""Tags that some models put around their reasoning."""
_MARK_TOKENS = 16
"""More than the marks around the reasoning are."""
_REFUSALS = (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT)


@check
async def greedy_repeats_itself(server: Server) -> str:
    """The same greedy request three times."""
    texts = [text_of(await server.generate(PROMPT)) for _ in range(3)]
    wants(len(set(texts)) == 1, f"three greedy answers to one request: {' | '.join(map(repr, texts))[:200]}")
    return f"{texts[0]!r}"[:60]


@check
async def unset_is_not_zero(server: Server) -> str:
    """The default temperature is reported; a set 0 stays 0 with any default."""
    request = generation(PROMPT)
    request.config.ClearField("temperature")
    answer = await server.send(request)
    wants(answer.effective_config.HasField("temperature"), "effective_config does not say which temperature was used")
    default = answer.effective_config.temperature
    greedy = await server.generate(PROMPT)
    wants(greedy.effective_config.HasField("temperature"), "effective_config has no temperature where it was set to 0")
    used = greedy.effective_config.temperature
    wants(used == 0, f"temperature was set to 0 and {used} was used")
    if default == 0:
        wants(text_of(answer) == text_of(greedy), "the default is said to be greedy and the answers differ")
    effective = (await server.send(model.GenerateRequest(messages=request.messages))).effective_config
    wants(effective.max_output_tokens > 0, "effective_config does not say which max_output_tokens was used")
    return f"default temperature {default:g}, {effective.max_output_tokens} tokens"


@check
async def effective_config_is_complete(server: Server) -> None:
    """Every setting is reported as set, or the request is refused."""
    fields: dict[str, Any] = {"max_output_tokens": 7, "temperature": 0.0, "top_p": 0.5, "top_k": 3, "stop": ["@@@"]}
    for name, value in fields.items():
        try:
            answer = await server.generate(PROMPT, **{"max_output_tokens": 7, name: value})
        except CallError as error:
            if error.code not in _REFUSALS or name not in ("top_p", "top_k"):
                raise
            continue
        effective = {field.name: used for field, used in answer.effective_config.ListFields()}
        wants(effective.get(name) == value, f"{name} was set to {value} and effective_config has {effective.get(name)}")


@check
async def stop_strings_end_the_output(server: Server) -> str:
    """A piece from the middle of an answer, sent as a stop string, ends that answer."""
    full = text_of(await server.generate(PROMPT))
    middle = len(full) // 2
    stop = full[middle : middle + 3]
    applies(
        len(full) > 3 and bool(stop.strip()) and CUT_CHARACTER not in stop,
        f"the answer {full!r} has no piece to stop at",
    )
    cut = await server.generate(PROMPT, stop=["@never@", stop])
    expected = full[: full.index(stop)]
    wants(text_of(cut) == expected, f"{full!r} stopped at {stop!r} should be {expected!r}, it is {text_of(cut)!r}")
    reason = enum_name(model.FinishReason, cut.finish_reason)
    wants(cut.finish_reason == model.FINISH_REASON_STOP_STRING, f"it stopped at {stop!r} with {reason}")
    return f"at {stop!r}"


@check
async def output_limit_holds(server: Server) -> str:
    """A short limit, then a longer one: a beginning of the same greedy answer."""
    long, short = await server.generate(PROMPT), await server.generate(PROMPT, max_output_tokens=2)
    applies(long.usage.output_tokens > 2, f"the answer has {long.usage.output_tokens} tokens: nothing to cut")
    wants(short.usage.output_tokens <= 2, f"2 tokens were allowed, {short.usage.output_tokens} are reported")
    reason = enum_name(model.FinishReason, short.finish_reason)
    wants(short.finish_reason == model.FINISH_REASON_MAX_TOKENS, f"an output cut at 2 tokens ends with {reason}")
    wants(len(text_of(short)) < len(text_of(long)) or not text_of(long), "2 tokens say as much as 16")
    if server.exact:
        begins = text_of(short).rstrip(CUT_CHARACTER).rstrip()
        wants(text_of(long).startswith(begins), f"{begins!r} is not the beginning of {text_of(long)!r}")
    return f"{short.usage.output_tokens} of {long.usage.output_tokens} tokens"


@check
async def usage_is_reported(server: Server) -> str:
    """A longer prompt costs more, and no output beyond the limit."""
    short, long = (await server.generate("Hello", max_output_tokens=4), await server.generate(PROMPT * 4))
    wants(short.usage.input_tokens > 0, "input_tokens is 0")
    wants(long.usage.input_tokens > short.usage.input_tokens, "a longer prompt has no more input_tokens")
    wants(short.usage.output_tokens <= 4, f"{short.usage.output_tokens} output tokens where 4 were allowed")
    wants(not text_of(short) or short.usage.output_tokens > 0, "text was said and output_tokens is 0")
    return f"{short.usage.input_tokens} and {long.usage.input_tokens} prompt tokens"


@check
async def finish_reason_is_set(server: Server) -> None:
    """An answer says why it ended, and its parts hold something."""
    for limit in (1, 64):
        answer = await server.generate(PROMPT, max_output_tokens=limit)
        wants(answer.finish_reason in model.FinishReason.values(), f"finish_reason {answer.finish_reason} is unknown")
        wants(answer.finish_reason != model.FINISH_REASON_UNSPECIFIED, "finish_reason is unspecified")
        wants(all(part.WhichOneof("kind") for part in answer.parts), "a part of the answer is neither text nor image")


@check
async def seed_repeats(server: Server) -> None:
    """A seeded sample alone, again, and beside others."""

    async def sample(seed: int) -> str:
        return text_of(await server.generate(PROMPT, temperature=1.0, seed=seed))

    alone = [await sample(seed) for seed in (1, 2, 1, 2)]
    wants(alone[:2] == alone[2:], f"seeds 1 and 2 gave {alone[:2]!r} and then {alone[2:]!r}")
    if server.exact:
        among = await asyncio.gather(*(sample(seed) for seed in (1, 2, 3, 4)))
        wants(list(among[:2]) == alone[:2], f"seeds 1 and 2 alone gave {alone[:2]!r}, beside others {among[:2]!r}")


@check
async def logprobs_make_sense(server: Server) -> None:
    """Two alternatives for each token of a greedy answer, which takes the first."""
    answer = await server.generate(PROMPT, max_output_tokens=6, top_logprobs=2)
    wants(bool(answer.logprobs) or not text_of(answer), "text was said and no log-probabilities came")
    number, tokens = len(answer.logprobs), answer.usage.output_tokens
    wants(number <= tokens, f"{number} log-probabilities for {tokens} tokens")
    for token in answer.logprobs:
        top = token.top or token.alternatives
        values = [other.logprob for other in top]
        wants(token.logprob <= 1e-6, f"a log-probability is {token.logprob}: above 0")
        wants(1 <= len(values) <= 2, f"{len(values)} alternatives where 2 were asked for")
        wants(values == sorted(values, reverse=True), f"alternatives are not sorted: {values}")
        near = abs(token.logprob - values[0]) <= server.tolerance
        wants(near, f"greedy took a token of {token.logprob:.4f} where one of {values[0]:.4f} stood")
        wants(not any(other.alternatives for other in token.alternatives), "an alternative has alternatives")
    none = await server.generate(PROMPT, max_output_tokens=2)
    wants(not none.logprobs, "log-probabilities came that nobody asked for")


@check
async def reasoning_stays_apart(server: Server) -> str:
    """A riddle with room to think, then cut after two tokens."""
    complete = await server.generate(RIDDLE, max_output_tokens=server.room)
    text, reasoning, usage = text_of(complete), complete.reasoning, complete.usage
    for mark in _MARKS:
        wants(mark not in text, f"parts hold {mark!r}: {text[:80]!r}")
    number, tokens = usage.reasoning_tokens, usage.output_tokens
    wants(number <= tokens, f"reasoning_tokens is {number}, and output_tokens {tokens}")
    applies(bool(reasoning) and number != 1 and number != 2, f"it answered {text[:40]!r} without reasoning")
    wants(reasoning not in text, f"parts repeat the reasoning: {text[:80]!r}")
    cut = await server.generate(RIDDLE, max_output_tokens=2)
    wants(not text_of(cut).strip(), f"cut after 2 tokens, inside the reasoning, parts hold {text_of(cut)!r}")
    reason = enum_name(model.FinishReason, cut.finish_reason)
    wants(cut.finish_reason == model.FINISH_REASON_MAX_TOKENS, f"reasoning cut at 2 tokens ends with {reason}")
    if server.exact:
        begins = cut.reasoning.rstrip(CUT_CHARACTER).rstrip()
        wants(reasoning.startswith(begins), f"{begins!r} is not the beginning of the reasoning {reasoning[:80]!r}")
    return f"{number or 'an unknown number'} of {tokens} tokens"


@check
async def thinking_turns_off(server: Server) -> None:
    """A riddle, to be answered without reasoning."""
    answer = await server.generate(RIDDLE, max_output_tokens=64, thinking=False)
    wants(not answer.reasoning, f"thinking was off, and it reasoned: {answer.reasoning[:80]!r}")
    tokens = answer.usage.reasoning_tokens
    wants(not tokens, f"thinking was off, and {tokens} tokens of reasoning are reported")


@check
async def thinking_budget_holds(server: Server) -> str:
    """A riddle with room for two tokens of reasoning, and for an answer after them."""
    answer = await server.generate(RIDDLE, max_output_tokens=64, thinking_budget=2)
    applies(bool(answer.reasoning), "it did not reason about a riddle")
    tokens = answer.usage.reasoning_tokens
    wants(tokens <= 2 + _MARK_TOKENS, f"a budget of 2 tokens was set and {tokens} of reasoning are reported")
    ended = answer.finish_reason != model.FINISH_REASON_MAX_TOKENS
    wants(ended or bool(text_of(answer)), "the reasoning filled the output although its budget was 2 tokens")
    return f"{answer.reasoning!r}"[:60]


@check
async def images_are_made(server: Server) -> None:
    """An image where one is asked for."""
    request = model.GenerateRequest(messages=[user("Draw a red disc.")], modality=model.MODALITY_IMAGE)
    answer = await server.send(request)
    wants(any(part.image.data for part in answer.parts), "MODALITY_IMAGE was asked for and no image came")
