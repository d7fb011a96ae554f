"""Prompts that no chat template renders, against a plain loop over the logits and against rendered conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model

torch = pytest.importorskip("torch")
import transformers as tf  # noqa: E402

QUESTION = "Which option is correct? (A) red (B) blue"
BEFORE = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
OPTIONS = ["A", " B", "C, because it is"]


def raw(text: str) -> model.RawPrompt:
    return model.RawPrompt(text=text)


def tokens(ids: list[int]) -> model.RawPrompt:
    return model.RawPrompt(tokens=model.TokenIds(ids=ids))


def conversation() -> list[model.Message]:
    return [model.Message(role=model.ROLE_USER, parts=[model.Part(text=QUESTION)])]


def rows(folder: Path, ids: list[int]) -> Any:
    net = tf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return net(torch.tensor([ids])).logits[0].double().log_softmax(-1)


async def test_a_prompt_is_scored_token_by_token(served: Any, hf: Any, checkpoint_folder: Any) -> None:
    folder = checkpoint_folder("text")
    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(BEFORE + "B is blue")["input_ids"]
    wanted = rows(folder, ids)
    async with served(hf("text")) as server:
        assert model.CAPABILITY_RAW_PROMPT in (await server.info()).capabilities
        by_text, by_tokens = [
            await server.send(model.LikelihoodRequest(raw_prompt=prompt, score_prompt=True))
            for prompt in (raw(BEFORE + "B is blue"), tokens(ids))
        ]
        assert list(by_text.prompt_tokens) == list(by_tokens.prompt_tokens)
        scored = by_text.prompt_tokens
        assert [token.token_id for token in scored] == ids
        assert b"".join(token.token for token in scored).decode() == BEFORE + "B is blue"
        assert (scored[0].logprob, len(scored[0].top)) == (0, 0)
        for position, token in enumerate(scored[1:]):
            assert token.logprob == pytest.approx(float(wanted[position, ids[position + 1]]), abs=1e-5)
            assert token.top[0].token_id == int(wanted[position].argmax())
            assert token.top[0].logprob == pytest.approx(float(wanted[position].max()), abs=1e-5)
        assert (by_text.usage.input_tokens, by_text.usage.output_tokens) == (len(ids), len(ids) - 1)
        (alone,) = (
            await server.send(model.LikelihoodRequest(raw_prompt=tokens(ids[:1]), score_prompt=True))
        ).prompt_tokens
        assert alone.logprob == 0


async def test_what_a_client_renders_is_answered_and_scored_as_the_conversation(served: Any, hf: Any) -> None:
    async with served(hf("text", max_batch=1)) as server:
        likelihood = model.LikelihoodRequest(messages=conversation(), continuations=OPTIONS, return_tokens=True)
        ours = await server.send(likelihood)
        other = await server.send(model.LikelihoodRequest(raw_prompt=raw(BEFORE), continuations=OPTIONS))
        assert [score.logprob for score in other.scores] == [score.logprob for score in ours.scores]
        for text, score in zip(OPTIONS, ours.scores, strict=True):
            request = model.LikelihoodRequest(raw_prompt=raw(BEFORE + text), score_prompt=True)
            owned = (await server.send(request)).prompt_tokens[ours.usage.input_tokens :]
            assert [token.token for token in owned] == [token.token for token in score.tokens]
            assert sum(token.logprob for token in owned) == pytest.approx(score.logprob, abs=1e-5)
            assert all(token.logprob == token.top[0].logprob for token in owned) == score.is_greedy
        config = model.GenerationConfig(max_output_tokens=8)
        replies = [
            await server.send(model.GenerateRequest(config=config, **prompt))
            for prompt in ({"messages": conversation()}, {"raw_prompt": raw(BEFORE)})
        ]
        assert len({reply.parts[0].text for reply in replies}) == 1
        assert len({reply.usage.input_tokens for reply in replies}) == 1


async def test_a_multimodal_model_takes_text_and_tokens(served: Any, hf: Any, checkpoint_folder: Any) -> None:
    tokenizer = tf.AutoTokenizer.from_pretrained(checkpoint_folder("llava"))
    async with served(hf("llava")) as server:
        ids = tokenizer("The sky is blue")["input_ids"]
        one, two = [
            await server.send(model.LikelihoodRequest(raw_prompt=prompt, score_prompt=True))
            for prompt in (raw("The sky is blue"), tokens(ids))
        ]
        assert [token.token_id for token in one.prompt_tokens] == ids
        assert list(one.prompt_tokens) == list(two.prompt_tokens)
        image = tokenizer.convert_tokens_to_ids("<image>")
        for prompt in (raw("<image> hi"), tokens([*ids, image])):
            attempt = server.send(model.GenerateRequest(raw_prompt=prompt))
            assert await refusal(attempt) == ("INVALID_ARGUMENT", "placeholder_in_text")


async def test_what_is_refused(served: Any, hf: Any) -> None:
    thinking = model.GenerationConfig(thinking=True)
    generate: list[tuple[dict[str, Any], str, str]] = [
        ({"raw_prompt": raw("a"), "messages": conversation()}, "INVALID_ARGUMENT", "two_prompts"),
        ({"raw_prompt": model.RawPrompt()}, "INVALID_ARGUMENT", "empty_prompt"),
        ({"raw_prompt": tokens([])}, "INVALID_ARGUMENT", "empty_prompt"),
        ({"raw_prompt": tokens([10**6])}, "INVALID_ARGUMENT", "unknown_token"),
        ({"raw_prompt": raw("a"), "config": thinking}, "INVALID_ARGUMENT", "raw_prompt_conflict"),
        ({"raw_prompt": raw("a"), "modality": model.MODALITY_IMAGE}, "UNIMPLEMENTED", "no_raw_image"),
    ]
    score: list[tuple[dict[str, Any], str]] = [
        ({"messages": conversation(), "score_prompt": True}, "bad_score_prompt"),
        ({"raw_prompt": raw("a"), "continuations": ["b"], "score_prompt": True}, "bad_score_prompt"),
        ({"raw_prompt": tokens([1]), "continuations": ["b"]}, "continuation_of_tokens"),
        ({"raw_prompt": raw("a")}, "no_continuations"),
    ]
    async with served(hf("text")) as server:
        for fields, status, reason in generate:
            assert await refusal(server.send(model.GenerateRequest(**fields))) == (status, reason), fields
        for fields, reason in score:
            assert await refusal(server.send(model.LikelihoodRequest(**fields))) == ("INVALID_ARGUMENT", reason), fields
