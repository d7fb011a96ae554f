"""Inputs of a checkpoint: rendered prompts, token numbers, and hashes of the files that produce them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model

torch = pytest.importorskip("torch")


def system(text: str) -> model.Message:
    return model.Message(role=model.ROLE_SYSTEM, parts=[model.Part(text=text)])


async def test_the_prompt_is_what_the_model_was_given(served: Any, hf: Any, ask: Any, picture: Any) -> None:
    backend = hf("qwen2_vl")
    async with served(backend) as server:
        info = await server.info()
        assert re.fullmatch("[0-9a-f]{64}", info.processor_sha256)
        assert info.system_messages == model.SYSTEM_MESSAGES_TAKEN
        config = model.GenerationConfig(max_output_tokens=3, top_logprobs=2)
        messages = [system("Be zq7."), ask(picture(1), "What is it?")]
        request = model.GenerateRequest(messages=messages, config=config, return_prompt=True)
        reply = await server.send(request)
        request.return_prompt = False
        plain = await server.send(request)
        assert not plain.HasField("prompt")
        assert (plain.parts, plain.logprobs) == (reply.parts, reply.logprobs)
        prompt, tokenizer = reply.prompt, backend._loaded.checkpoint.tokenizer
        assert len(prompt.token_ids) == reply.usage.input_tokens
        assert tokenizer(prompt.text, add_special_tokens=False)["input_ids"] == list(prompt.token_ids)
        assert "Be zq7." in prompt.text
        assert "What is it?" in prompt.text
        assert prompt.text.count("<|image_pad|>") == reply.usage.image_tokens > 0
        for token in reply.logprobs:
            assert tokenizer.decode([token.token_id]).encode() == token.token
            assert token.top[0].token_id == token.token_id
        continuations = model.LikelihoodRequest(
            messages=messages, continuations=["yes", "no"], return_tokens=True, return_prompt=True
        )
        scored = await server.send(continuations)
        assert scored.prompt == prompt
        for text, score in zip(("yes", "no"), scored.scores, strict=True):
            assert tokenizer.decode([token.token_id for token in score.tokens]).strip() == text


async def test_templates_without_a_place_for_system_messages_say_so(
    served: Any, hf: Any, ask: Any, checkpoint_folder: Any, tmp_path: Path
) -> None:
    """One that refuses them, and one that drops them without a word."""
    refuses = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
        "{{ m.content }}{% endfor %}{% if add_generation_prompt %}:{% endif %}"
    )
    drops = "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}:"
    for template in (refuses, drops):
        (tmp_path / "template").write_text(template)
        async with served(hf("text", chat_template=tmp_path / "template")) as server:
            assert (await server.info()).system_messages == model.SYSTEM_MESSAGES_REFUSED
            request = model.GenerateRequest(messages=[system("Be brief."), ask("What?")])
            assert await refusal(server.send(request)) == ("UNIMPLEMENTED", "no_system_messages")


def test_the_processor_has_a_hash(hf: Any, checkpoint_folder: Any, tmp_path: Path) -> None:
    """The same in another folder; another for other settings, of the user's or in the files."""
    from model_server.hf.checkpoint import load
    from model_server.hf.identity import processor_hash
    from model_server.hf.settings import Settings

    folder = shutil.copytree(checkpoint_folder("llava"), tmp_path / "copy")
    plain, moved = (
        processor_hash(load(Settings(model=str(checkpoint)))) for checkpoint in (checkpoint_folder("llava"), folder)
    )
    assert plain == moved
    changed = processor_hash(load(Settings(model=str(folder), processor={"do_normalize": False})))
    file = next(path for path in folder.glob("*processor_config.json") if "image_mean" in path.read_text())
    fields = json.loads(file.read_text())
    (fields.get("image_processor") or fields)["image_mean"] = [0.1, 0.2, 0.3]
    file.write_text(json.dumps(fields))
    edited = processor_hash(load(Settings(model=str(folder))))
    assert len({plain, changed, edited}) == 3
