"""Adapters: answers and scores are those of PEFT's own model, and what does not fit is refused in words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.refused_servers import refused

from model_server.backend import LoadError
from model_server.hf.settings import Settings

CONTINUATIONS = [" yes", " The answer is B, because", " 7"]
ADAPTERS = [
    ("llava", "LoraConfig", {"target_modules": ["q_proj", "v_proj"], "modules_to_save": ["lm_head"]}),
    ("llava", "LoraConfig", {"target_modules": "all-linear", "use_dora": True, "use_rslora": True}),
    ("llava", "LoraConfig", {"target_modules": ["q_proj", "fc1", "linear_1"]}),
    ("qwen3_5", "LoraConfig", {"target_modules": ["in_proj_qkv", "q_proj", "gate_proj"]}),
    ("llava", "IA3Config", {"target_modules": ["k_proj", "down_proj"], "feedforward_modules": ["down_proj"]}),
    ("llava", "LoHaConfig", {"target_modules": ["q_proj"]}),
    ("llava", "OFTConfig", {"target_modules": ["q_proj"], "oft_block_size": 16, "r": 0}),
]


@pytest.fixture
def peft() -> Any:
    import lyncean.transformers_import  # noqa: F401  (before PEFT, which imports the library)

    return pytest.importorskip("peft", reason="not installed: pip install 'lyncean[adapters]'")


@pytest.fixture
def trained(peft: Any, checkpoint_folder: Any, tmp_path: Path) -> Callable[..., Path]:
    """Writes an adapter of a kind's tiny checkpoint whose weights change every answer."""
    import torch
    import transformers as tf

    def write(kind: str, config: str = "LoraConfig", *, name: str = "tuned", **settings: Any) -> Path:
        auto = tf.AutoModelForCausalLM if kind == "text" else tf.AutoModelForImageTextToText
        base = auto.from_pretrained(checkpoint_folder(kind), dtype="float32")
        tuned = peft.get_peft_model(base, getattr(peft, config)(**settings))
        torch.manual_seed(3)
        with torch.no_grad():
            for parameter in tuned.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn_like(parameter) * 0.3)
        tuned.save_pretrained(tmp_path / name)
        return tmp_path / name

    return write


@pytest.mark.parametrize(("kind", "config", "settings"), ADAPTERS)
async def test_answers_are_those_of_peft(
    kind: str,
    config: str,
    settings: dict[str, Any],
    peft: Any,
    trained: Any,
    checkpoint_folder: Any,
    served: Any,
    hf: Any,
    ask: Any,
    picture: Any,
) -> None:
    from helpers.family_matrix import _shown
    from helpers.plain_loop import PlainLoop

    adapter = trained(kind, config, **settings)
    question = ask(picture(1), "What is it?")
    parts = [_shown(picture(1)), "What is it?"]
    judge = PlainLoop(checkpoint_folder(kind))
    before = judge.greedy(parts, 6)
    judge._net = peft.PeftModel.from_pretrained(judge._net, adapter)
    async with served(hf(kind, adapter=str(adapter))) as server:
        info = await server.info()
        reply = await server.generate(question, max_output_tokens=6, top_logprobs=1)
        scores = await server.score(question, CONTINUATIONS, return_tokens=True)
    assert info.model_name == f"{kind}+tuned"
    assert info.properties["adapter"] == str(adapter)
    wanted = judge.greedy(parts, 6)
    assert [token.token_id for token in reply.logprobs] == [token.id for token in wanted][: len(reply.logprobs)]
    assert [token.logprob for token in reply.logprobs] == pytest.approx(
        [token.logprob for token in wanted][: len(reply.logprobs)], abs=1e-5
    )
    assert [token.logprob for token in before] != pytest.approx([token.logprob for token in wanted], abs=1e-2)
    for text, score in zip(CONTINUATIONS, scores.scores, strict=True):
        tokens = judge.scores(parts, text)
        assert [token.token_id for token in score.tokens] == [token.id for token in tokens]
        assert [token.logprob for token in score.tokens] == pytest.approx([t.logprob for t in tokens], abs=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_are_those_of_peft_to_the_bit(dtype: str, peft: Any, trained: Any, checkpoint_folder: Any) -> None:
    import torch
    import transformers as tf

    from model_server.hf import checkpoint as checkpoints

    adapter, folder = trained("text", target_modules="all-linear"), str(checkpoint_folder("text"))
    served = checkpoints.load(Settings(model=folder, adapter=str(adapter), dtype=dtype)).model
    base = tf.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    reference = peft.PeftModel.from_pretrained(base, adapter)
    ids = torch.arange(5, 45)[None]
    with torch.inference_mode():
        assert torch.equal(served(ids).logits, reference(ids).logits)
        merged = reference.merge_and_unload()(ids).logits
        assert torch.equal(merged, served(ids).logits) is False, "a merged adapter rounds otherwise"


def test_its_files_identify_the_model(trained: Any, checkpoint_folder: Any) -> None:
    from model_server.hf import checkpoint as checkpoints

    folder = str(checkpoint_folder("text"))
    one, other = (trained("text", name=f"r{rank}", target_modules=["q_proj"], r=rank) for rank in (4, 8))
    revisions = [
        checkpoints.load(Settings(model=folder, adapter=str(adapter))).revision for adapter in (one, one, other)
    ]
    assert revisions[0] == revisions[1] != revisions[2]
    plain = checkpoints.load(Settings(model=folder)).revision
    assert all(revision.startswith(f"{plain}+adapter=sha256:") for revision in revisions)


def changed(folder: Path, **values: Any) -> Path:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    return folder


def test_an_adapter_of_another_model_is_refused(
    peft: Any, trained: Any, checkpoint_folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def line(adapter: Path, kind: str = "text") -> str:
        return refused("--backend", "transformers", "--model", str(checkpoint_folder(kind)), "--adapter", str(adapter))

    vision_adapter = trained("llava", name="eyes", target_modules=["fc1"])
    assert "does not fit LlamaForCausalLM (Target modules" in line(vision_adapter)
    text_adapter = trained("text", name="words", target_modules=["q_proj"])
    assert "does not fit LlavaForConditionalGeneration (it lacks" in line(text_adapter, "llava")
    assert "size mismatch" in line(changed(shutil.copytree(text_adapter, tmp_path / "sizes"), r=3))
    from safetensors.torch import load_file, save_file

    other = shutil.copytree(text_adapter, tmp_path / "other")
    weights = load_file(other / "adapter_model.safetensors")
    save_file(
        weights | {"base_model.model.more.weight": weights[min(weights)].clone()}, other / "adapter_model.safetensors"
    )
    assert "the model has a place for none of 1 weights" in line(other)
    hub = changed(shutil.copytree(text_adapter, tmp_path / "hub"), base_model_name_or_path="some/base")
    with pytest.raises(LoadError, match="was trained on some/base, not on other/base: give --model some/base"):
        Settings(model="other/base", adapter=str(hub)).check()
    Settings(model="some/base", adapter=str(hub)).check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "adapter_config.json").unlink(), "holds no adapter_config.json: give the folder"),
        (lambda folder: (folder / "adapter_model.safetensors").unlink(), "holds no adapter_model.safetensors"),
        (lambda folder: (folder / "adapter_config.json").write_text("{"), "cannot be read as JSON"),
        (lambda folder: changed(folder, peft_type="PREFIX_TUNING"), "is of kind 'PREFIX_TUNING', which is not suppo"),
        (lambda folder: changed(folder, alora_invocation_tokens=[3]), "is an activated LORA, which is not supported"),
        (lambda folder: (folder / "adapter_model.safetensors").write_bytes(b"\x10"), "is cut short or damaged"),
        (shutil.rmtree, "there is no folder"),
    ],
)
def test_a_folder_that_is_not_an_adapter_is_refused(
    change: Callable[[Path], object],
    message: str,
    checkpoint_folder: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from safetensors.numpy import save_file

    monkeypatch.setattr("model_server.hf.adapter.find_spec", lambda name: name)
    folder = tmp_path / "tuned"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "some/base"}')
    save_file({}, folder / "adapter_model.safetensors")
    change(folder)
    model_folder = str(checkpoint_folder("text"))
    assert message in refused("--backend", "transformers", "--model", model_folder, "--adapter", str(folder))


def test_an_adapter_in_place_of_its_model_names_both(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "some/base"}')
    line = refused("--backend", "transformers", "--model", str(tmp_path))
    assert f"is an adapter without its model: give --model some/base and --adapter {tmp_path}" in line


@pytest.mark.parametrize("beside", [False, True])
def test_without_peft_the_line_says_what_to_install(
    beside: bool, checkpoint_folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a model's own files the library would leave an adapter out without a word."""
    monkeypatch.setattr("model_server.hf.adapter.find_spec", lambda name: None)
    folder = shutil.copytree(checkpoint_folder("text"), tmp_path / "model")
    (folder / "adapter_config.json").write_text("{}")
    options = [] if beside else ["--adapter", str(folder)]
    where = folder if beside else checkpoint_folder("text")
    line = refused("--backend", "transformers", "--model", str(where), *options)
    assert "peft is not installed: pip install 'lyncean[adapters]'" in line


def test_a_model_that_comes_with_an_adapter_needs_peft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Granite Speech does: the library would load it without, and say so in a log."""
    monkeypatch.setattr("model_server.hf.adapter.find_spec", lambda name: None)
    (tmp_path / "config.json").write_text('{"model_type": "granite_speech", "has_lora_adapter": true}')
    line = refused("--backend", "transformers", "--model", str(tmp_path))
    assert f"{tmp_path} comes with an adapter, and peft is not installed: pip install 'lyncean[adapters]'" in line
