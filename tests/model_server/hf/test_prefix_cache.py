"""Several questions about one image: its part of the prompt is computed once, and changes no bit of any answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lyncean.model.v1 import model_pb2 as model

pytest.importorskip("torch")
from helpers.model_passes import count_forwards

TEXTS = ["What is it?", "How many dogs are there in the picture?", "Say yes or no.", "Which one? (A) red", "Why?"]


def panel(ask: Any, picture: Any) -> list[Any]:
    """Five questions about one image, one about another, and the scores of three."""
    one, two = picture(1), picture(2)
    config = model.GenerationConfig(max_output_tokens=4, top_logprobs=2)
    asked = [ask(one, text) for text in TEXTS] + [ask(two, TEXTS[0]), ask("No image.")]
    sent: list[Any] = [model.GenerateRequest(messages=[message], config=config) for message in asked]
    options = [" yes", "no", "The answer is B"]
    return sent + [model.LikelihoodRequest(messages=[each], continuations=options) for each in asked[4:]]


def content(reply: Any) -> Any:
    return reply.scores if isinstance(reply, model.LikelihoodResponse) else (reply.parts, reply.logprobs)


def numbers(reply: Any) -> list[float]:
    likelihood = isinstance(reply, model.LikelihoodResponse)
    return [each.logprob for each in (reply.scores if likelihood else reply.logprobs)]


async def test_what_was_asked_before_changes_no_bit(
    served: Any, hf: Any, ask: Any, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = panel(ask, picture)
    async with served(hf("qwen2_5_vl", max_batch=1)) as server:
        plain = [await server.send(each) for each in sent]
        assert not any(reply.usage.cached_tokens for reply in plain)
    backend = hf("qwen2_5_vl", max_batch=1, prefix_cache_bytes=10**8, image_cache_bytes=0)
    async with served(backend) as server:
        assert (await server.info()).properties["prefix_cache"] == "on"
        fresh = []
        for each in sent:
            backend._loaded.prefixes.clear()
            fresh.append(await server.send(each))
        assert not any(reply.usage.cached_tokens for reply in fresh)
        backend._loaded.prefixes.clear()
        passes = count_forwards(backend, monkeypatch)
        kept = [await server.send(each) for each in sent]
        computed = sum(passes)
        assert [content(reply) for reply in kept] == [content(reply) for reply in fresh], "to the bit"
        for one, other in zip(kept, plain, strict=True):
            assert numbers(one) == pytest.approx(numbers(other), abs=1e-5)
        shared = [reply.usage.cached_tokens for reply in kept]
        assert [bool(tokens) for tokens in shared] == [False, *[True] * 4, False, False, True, True, False]
        passes.clear()
        backend._loaded.prefixes.clear()
        for each in sent:
            backend._loaded.prefixes.clear()
            await server.send(each)
        assert sum(passes) - computed == sum(shared), "what is said to be cached was not computed"
    async with served(hf("qwen2_5_vl", max_batch=8, batch_wait=0.1, prefix_cache_bytes=10**8)) as server:
        together = await asyncio.gather(*map(server.send, sent))
        for one, other in zip(together, plain, strict=True):
            assert numbers(one) == pytest.approx(numbers(other), abs=1e-5)
            assert getattr(one, "parts", []) == getattr(other, "parts", [])


async def test_it_is_bounded_and_off_where_a_prompt_sees_itself_both_ways(
    served: Any, hf: Any, ask: Any, picture: Any
) -> None:
    backend = hf("llava", max_batch=1, prefix_cache_bytes=10**8)
    async with served(backend) as server:
        cache = backend._loaded.prefixes
        await server.generate(ask(picture(1), "What?"), max_output_tokens=1)
        cache._kept.capacity = 2 * cache._kept.size
        for number in (2, 3, 1):
            reply = await server.generate(ask(picture(number), "What?"), max_output_tokens=1)
            assert not reply.usage.cached_tokens, "the first was the least recently used"
        assert len(cache._kept) == 2
        assert cache._kept.size <= cache._kept.capacity
    async with served(hf("paligemma", prefix_cache_bytes=10**8)) as server:
        assert (await server.info()).properties["prefix_cache"] == "off"
        reply = [await server.generate(ask(picture(1), "What?"), max_output_tokens=1) for _ in range(2)][1]
        assert not reply.usage.cached_tokens
