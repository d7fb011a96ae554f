"""Loading of checkpoints, their vision, and the effects of settings of processor and weights."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers as tf
from helpers.refused_servers import refused
from safetensors.torch import save_file

from lyncean.model.v1 import model_pb2 as model
from model_server.backend import LoadError
from model_server.hf import checkpoint as checkpoints
from model_server.hf.settings import Settings

_CODE = """
from transformers import LlavaConfig, LlavaForConditionalGeneration

class FarConfig(LlavaConfig):
    model_type = "far"

class FarModel(LlavaForConditionalGeneration):
    config_class = FarConfig
"""


@pytest.fixture
def far(checkpoint_folder: Any, tmp_path: Path) -> Path:
    """A LLaVA as a checkpoint with code of its own, which calls itself a causal language model."""
    folder = shutil.copytree(checkpoint_folder("llava"), tmp_path / "far")
    (folder / "far.py").write_text(_CODE)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "far",
        "architectures": ["FarModel"],
        "auto_map": {"AutoConfig": "far.FarConfig", "AutoModelForCausalLM": "far.FarModel"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    # save_pretrained writes the older names of LLaVA's weights, which the library maps back for LLaVA alone.
    weights = tf.AutoModelForImageTextToText.from_pretrained(checkpoint_folder("llava"), dtype="float32").state_dict()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


async def test_a_causal_model_with_an_image_processor_sees(
    far: Path, served: Any, hf: Any, ask: Any, picture: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    async with served(hf("", model=str(far), trust_remote_code=True)) as server, served(hf("llava")) as plain:
        info = await server.info()
        assert model.CAPABILITY_IMAGE_INPUT in info.capabilities
        assert info.properties["likelihood_method"] == "packed"
        question = ask(picture(1), "Which is right?")
        scores = [await instance.score(question, ["A", "B"]) for instance in (server, plain)]
        assert scores[0].scores == scores[1].scores
    (far / "processor_config.json").unlink()
    (far / "preprocessor_config.json").unlink(missing_ok=True)
    with pytest.raises(LoadError, match=rf"no image processor .*: vllm serve {far} --trust-remote-code, then --back"):
        checkpoints.load(Settings(model=str(far), trust_remote_code=True))


def test_a_text_model_beside_files_of_a_larger_relative_is_a_text_model(checkpoint_folder: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint_folder("text"), tmp_path / "text")
    names = folder / "tokenizer_config.json"
    names.write_text(json.dumps(json.loads(names.read_text()) | {"processor_class": "Gemma3Processor"}))
    assert not checkpoints.load(Settings(model=str(folder))).has_vision
    for name in ("processor_config.json", "preprocessor_config.json"):
        if (source := checkpoint_folder("gemma3") / name).exists():
            shutil.copy(source, folder)
    assert not checkpoints.load(Settings(model=str(folder))).has_vision


def test_a_type_that_nothing_here_runs_is_left_to_vllm(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(LoadError, match=rf"type 'clip'.*; vLLM may know it: vllm serve {tmp_path}, then --backend op"):
        checkpoints.load(Settings(model=str(tmp_path)))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("qwen2_vl", {"max_pixels": 1568, "min_pixels": 784}), ("internvl", {"crop_to_patches": False})],
)
async def test_settings_of_the_processor_are_obeyed_and_identify_the_model(
    kind: str, settings: dict[str, Any], served: Any, hf: Any, ask: Any, picture: Any
) -> None:
    question = ask(picture(1, (112, 56)), "What is it?")
    async with served(hf(kind)) as plain, served(hf(kind, processor=settings)) as changed:
        usage = [(await instance.generate(question, max_output_tokens=1)).usage for instance in (plain, changed)]
        assert 0 < usage[1].image_tokens < usage[0].image_tokens
        infos = [await instance.info() for instance in (plain, changed)]
        text = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(settings.items()))
        assert infos[1].model_revision == f"{infos[0].model_revision}+{text}"
        assert (infos[0].properties.get("processor"), infos[1].properties["processor"]) == (None, text)


def test_an_encoder_of_a_package_that_is_missing_names_it(checkpoint_folder: Any, tmp_path: Path) -> None:
    if importlib.util.find_spec("timm"):
        pytest.skip("timm is installed")
    folder = shutil.copytree(checkpoint_folder("llava"), tmp_path / "copy")
    tf.AutoConfig.for_model("fast_vlm").save_pretrained(folder)
    line = refused("--backend", "transformers", "--model", str(folder))
    assert "pip install timm" in line


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("qwen2_vl", {"max_pixel": 1}, "max_pixel: Qwen2VLImageProcessor has no such setting; it has .*max_p"),
        ("qwen2_vl", {"max_pixels": "many"}, '--processor max_pixels="many": '),
        ("text", {"max_pixels": 1568}, "takes no images"),
    ],
)
def test_settings_that_no_processor_has(
    kind: str, settings: dict[str, Any], message: str, checkpoint_folder: Any
) -> None:
    with pytest.raises(LoadError, match=message):
        checkpoints.load(Settings(model=str(checkpoint_folder(kind)), processor=settings))


@pytest.mark.parametrize("method", ["bitsandbytes-4bit", "gptq"])
def test_quantization_without_its_package_is_one_line(method: str, checkpoint_folder: Any, tmp_path: Path) -> None:
    package = {"gptq": "optimum"}.get(method, "bitsandbytes")
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    folder = shutil.copytree(checkpoint_folder("text"), tmp_path / "copy")
    options = ["--quantize", method]
    if method == "gptq":
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 128}
        (folder / "config.json").write_text(json.dumps(config))
        options = []
    line = refused("--backend", "transformers", "--model", str(folder), *options)
    assert package in line
    assert "install" in line


@pytest.mark.parametrize("part", ["processor", "model"])
def test_a_model_that_cannot_take_its_own_images_is_not_loaded(
    part: str, hf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the sizes in its processor's files are not those of its encoder."""

    def wrong(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("the image has 256 patches, and the model has places for 1024")

    target = {
        "processor": "transformers.LlavaProcessor.__call__",
        "model": "transformers.LlavaModel.get_image_features",
    }[part]
    monkeypatch.setattr(target, wrong)
    with pytest.raises(LoadError, match=r"llava model takes images, and fails at one of .*processor"):
        hf("llava").load()
