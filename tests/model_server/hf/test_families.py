"""A dozen families, on tiny checkpoints: what each claims, that its ways agree, and that company changes nothing.

All types, against a judge of the library's own, are in `test_model_types`.

Generate runs the library's own decoding loop and Likelihood runs our passes over a shared
prefix, so that a token's log-probability is found in two independent ways.
"""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from helpers.model_serving import refusal
from PIL import Image

from lyncean.model.v1 import model_pb2 as model

KINDS = ["text", "llava", "llava_next", "qwen2_5_vl", "internvl", "gemma3", "paligemma", "blip-2", "mllama", "kosmos-2"]
KINDS += ["emu3", "qwen3_5", "jamba"]
WEEKLY = ["llava_onevision", "qwen2_vl", "qwen3_vl", "idefics3", "smolvlm", "instructblip", "janus", "qwen2_5_omni"]
WEEKLY += ["gemma4", "qwen2_audio", "lfm2_vl", "nemotron_h"]
TEXT_ONLY = {"text", "qwen2_audio", "nemotron_h", "jamba"}
SINGLE_IMAGE = {"blip-2", "instructblip", "kosmos-2"}
NEEDS_IMAGE = {"blip-2", "instructblip", "paligemma", "kosmos-2"}
NO_VISION_CACHE = {*TEXT_ONLY, "blip-2", "instructblip", "mllama", "kosmos-2", "qwen3_5", "lfm2_vl"}
STATIC = {"mllama"}
EXPECTED = dict.fromkeys(("kosmos-2", "qwen3_5", "lfm2_vl", "nemotron_h"), "expanded") | {"jamba": "forked"}
CONTINUATIONS = [" yes", "no", "The answer is B, because", "The answer is C", " the answer", "7", "no"]


def requests(kind: str, ask: Any, picture: Any) -> list[model.GenerateRequest]:
    """Different lengths, images, orders and ways of decoding."""
    one, two = picture(1), picture(2, (40, 60))
    blank = kind in TEXT_ONLY
    messages = [
        ask(*([] if blank else [one]), "Which of these is right? (A) red (B) blue (C) green"),
        ask(*([] if blank else [two]), "What is it?"),
        ask(*([] if blank else [two]), "How many dogs are there in the picture? Answer with a number only."),
        ask(*([] if blank else [one]), "What is it?"),
    ]
    if not blank and kind not in SINGLE_IMAGE:
        messages += [ask(one, "Compare", two, "with the first."), ask(two, "Compare", one, "with the first.")]
    if kind not in NEEDS_IMAGE:
        messages += [ask("There is no image here. Say yes or no."), ask("Say it.")]
    # One token alone is always the token of its text, unless its text is empty.
    messages += [messages[0], messages[1], messages[2]]
    configs: list[dict[str, Any]] = [
        {"max_output_tokens": 7},
        {"max_output_tokens": 5, "temperature": 1.0, "seed": 3},
        {"max_output_tokens": 6, "temperature": 0.7, "seed": 4, "top_p": 0.8, "top_k": 20},
        {"max_output_tokens": 6, "stop": ["e", "an"]},
    ]
    return [
        model.GenerateRequest(
            messages=[message],
            config=model.GenerationConfig(
                top_logprobs=1,
                **({"max_output_tokens": 1} if number >= len(messages) - 3 else configs[number % len(configs)]),
            ),
        )
        for number, message in enumerate(messages)
    ]


def summary(reply: model.GenerateResponse) -> tuple[Any, ...]:
    return (
        "".join(part.text for part in reply.parts),
        reply.finish_reason,
        [token.token for token in reply.logprobs],
        reply.usage.input_tokens,
        reply.usage.image_tokens,
        reply.usage.output_tokens,
    )


async def scores(server: Any, message: model.Message, continuations: list[str]) -> Any:
    request = model.LikelihoodRequest(messages=[message], continuations=continuations, return_tokens=True)
    return (await server.send(request)).scores


@pytest.mark.parametrize("kind", [*KINDS, *(pytest.param(kind, marks=pytest.mark.weekly) for kind in WEEKLY)])
async def test_family(kind: str, served: Any, hf: Any, ask: Any, picture: Any) -> None:
    sent = requests(kind, ask, picture)
    async with served(hf(kind, max_batch=1)) as server:
        info = await server.info()
        assert info.properties["likelihood_method"] == EXPECTED.get(kind, "packed")
        batching = "none" if kind == "kosmos-2" else "static" if kind in STATIC else "continuous"
        assert info.properties["generate_batching"] == batching
        assert info.properties["vision_cache"] == ("off" if kind in NO_VISION_CACHE else "on")
        claimed = set(info.capabilities)
        assert (model.CAPABILITY_IMAGE_INPUT in claimed) == (kind not in TEXT_ONLY)
        assert (model.CAPABILITY_MULTI_IMAGE in claimed) == (kind not in TEXT_ONLY and kind not in SINGLE_IMAGE)
        alone = [await server.send(request) for request in sent]
        alone_scores = [await scores(server, request.messages[0], CONTINUATIONS) for request in sent]

        agreed = 0
        for request, reply in zip(sent, alone, strict=True):
            if request.config.temperature or request.config.stop:
                continue
            (score,) = await scores(server, request.messages[0], ["".join(part.text for part in reply.parts)])
            if [token.token for token in score.tokens] != [token.token for token in reply.logprobs]:
                continue  # the text's own tokens are others than those that were drawn
            agreed += 1
            assert score.is_greedy
            for one, other in zip(score.tokens, reply.logprobs, strict=True):
                assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert agreed, "no output's tokens were those of its text: the comparison did not happen"

    async with served(hf(kind, max_batch=8, batch_wait=0.1)) as server:
        together = await asyncio.gather(*[server.send(request) for request in sent])
        assert [summary(reply) for reply in together] == [summary(reply) for reply in alone]
        for one, other in zip(together, alone, strict=True):
            assert [t.logprob for t in one.logprobs] == pytest.approx([t.logprob for t in other.logprobs], abs=1e-4)
        company = await asyncio.gather(*[scores(server, request.messages[0], CONTINUATIONS) for request in sent])
        for one, other in zip(company, alone_scores, strict=True):
            assert [s.logprob for s in one] == pytest.approx([s.logprob for s in other], abs=1e-4)
            assert [s.is_greedy for s in one] == [s.is_greedy for s in other]
            assert [s.token_count for s in one] == [s.token_count for s in other]
            assert one[1].logprob == one[6].logprob  # the same continuation twice
    if kind not in TEXT_ONLY:
        assert summary(alone[0])[4] > 0, "image tokens are counted"
        different = [a.logprob != b.logprob for a, b in zip(alone_scores[1], alone_scores[3], strict=True)]
        assert any(different), "another image gives other scores"


@pytest.mark.parametrize(("kind", "side", "tokens"), [("janus", 16, 4), ("emu3", 32, 23)])
async def test_a_model_draws(kind: str, side: int, tokens: int, served: Any, hf: Any, ask: Any, picture: Any) -> None:
    def sent(message: model.Message, **config: Any) -> model.GenerateRequest:
        config_ = model.GenerationConfig(**config)
        return model.GenerateRequest(messages=[message], config=config_, modality=model.MODALITY_IMAGE)

    async with served(hf(kind, processor={"image_area": 1024} if kind == "emu3" else {})) as server:
        info = await server.info()
        assert model.CAPABILITY_IMAGE_OUTPUT in info.capabilities

        async def draw(*content: str | bytes, **config: Any) -> bytes:
            reply = await server.send(sent(ask(*content), **config))
            (part,) = reply.parts
            assert part.image.media_type == "image/png"
            assert Image.open(io.BytesIO(part.image.data)).size == (side, side)
            assert reply.usage.output_tokens == tokens
            return bytes(part.image.data)

        greedy = await draw("a red ball")
        assert greedy == await draw("a red ball")
        assert greedy != await draw("How many dogs are in the picture of a green house?")
        one, other = await draw("a ball", temperature=1, seed=1), await draw("a ball", temperature=1, seed=2)
        assert one != other
        assert one == await draw("a ball", temperature=1, seed=1)
        if kind == "emu3":
            assert await draw(picture(1), "like this") != await draw(picture(2), "like this")
        else:
            assert (await refusal(server.send(sent(ask(picture(1), "like this")))))[0] == "UNIMPLEMENTED"
        for message, config, code in (
            (ask("x"), {"max_output_tokens": 3}, "INVALID_ARGUMENT"),
            (ask("x"), {"top_logprobs": 1}, "UNIMPLEMENTED"),
        ):
            assert (await refusal(server.send(sent(message, **config))))[0] == code
    async with served(hf("llava")) as server:
        assert (await refusal(server.send(sent(ask("a ball")))))[0] == "UNIMPLEMENTED"
