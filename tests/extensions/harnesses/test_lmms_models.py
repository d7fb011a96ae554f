"""Prompts that a task of lmms-eval has for a model, and media that its scoring reads: asked for, proposed, recorded."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean_harnesses.library import HarnessError, model_names
from lyncean_harnesses.library.media_read import columns_read
from orchestrator import ConfigError

ABSENT = importlib.util.find_spec("lmms_eval") is None
installed = pytest.mark.skipif(ABSENT, reason="lmms-eval is not installed: pip install 'lyncean[lmms]'")
NAMES = {"llava", "llava_onevision", "qwen_vl", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "gpt4v", "phi3v", "llava_vid"}


@pytest.mark.parametrize(
    ("served", "name"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3_vl"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2_5_vl"),
        ("Qwen/Qwen-VL-Chat", "qwen_vl"),
        ("llava-hf/llava-onevision-qwen2-7b-ov-hf", "llava_onevision"),
        ("/models/llava-1.5-7b-hf/", "llava"),
        ("lmms-lab/LLaVA-Video-7B-Qwen2", "llava_vid"),
        ("gpt-4o-2024-11-20", "gpt4v"),
        ("microsoft/Phi-3.5-vision-instruct", "phi3v"),
        ("my/finetuned", ""),
    ],
)
def test_a_served_name_begins_with_that_of_lmms_eval(served: str, name: str) -> None:
    assert model_names.named_by(served, NAMES) == name


def test_models_of_a_task_are_those_with_settings_of_their_own() -> None:
    config = {
        "lmms_eval_specific_kwargs": {"default": {"a": 1}, "qwen3_vl": {"a": 2}, "pre_prompt": "x"},
        "model_specific_generation_kwargs": {"llava": {"max_new_tokens": 8}},
    }
    assert model_names.variants(config) == ["llava", "qwen3_vl"]
    assert model_names.variants({}) == []
    for key in ("lmms_eval_specific_kwargs", "model_specific_generation_kwargs"):
        with pytest.raises(HarnessError, match=f"task t: {key} is 'qwen3_vl': give a mapping"):
            model_names.variants({"task": "t", key: "qwen3_vl"})


def _inner(row: dict[str, Any]) -> Any:
    return row["mask"]


def _scoring(doc: dict[str, Any], results: list[str]) -> dict[str, Any]:
    scores = {"image": doc["answer"], "score": _inner(doc)}
    scores["picture"] = results[0]
    return scores


def test_columns_that_a_scoring_function_reads_are_found_in_its_code() -> None:
    assert columns_read(_scoring) == {"answer", "mask"}


def _benchmark(name: str, **settings: Any) -> tuple[Any, Any]:
    from lyncean_harnesses.benchmark import LMMS
    from orchestrator.samples import Variant

    benchmark = LMMS.find(name, ())[f"lmms:{name}"]
    variant = Variant(task=f"lmms:{name}", settings=benchmark.settings(**settings))
    benchmark.needs(variant)
    return benchmark, variant


@installed
@pytest.mark.full
def test_prompts_and_decoding_are_those_of_the_model(tmp_path: Path) -> None:
    from helpers import harness_rows

    kinds = {"id": "name", "question": "seen", "options": "words_text", "answer": "letter", "image_1": "image"}
    data = harness_rows.make(kinds, rows=4).map(lambda row: {"question_type": "multiple-choice", "image_2": None})
    data.to_parquet(tmp_path / "mmmu.parquet")
    texts, served = {}, model.GetModelInfoResponse(model_name="Qwen/Qwen3-VL-8B-Instruct")
    for name in ("", "qwen3_vl", "qwen2_vl"):
        benchmark, variant = _benchmark("mmmu_val", model_name=name)
        source = benchmark.rows("lmms:mmmu_val", str(tmp_path / "mmmu.parquet"))
        sample = next(iter(benchmark.samples(next(iter(source)), variant)))
        texts[name] = "".join(part.text for part in sample.turns[0].ask([]).messages[0].parts)
        advice = benchmark.advice(variant, served)
        assert ("--set model_name=qwen3_vl asks so" in " ".join(advice)) == (name == "")
        assert ("its default is used" in " ".join(advice)) == (name == "qwen2_vl")
        learned = json.loads(sample.turns[0].scoring.params["learned"])
        assert learned.get("model_name", "") == name
    assert "Answer with the option letter only." in texts["qwen3_vl"]
    assert texts[""] == texts["qwen2_vl"] != texts["qwen3_vl"]
    with pytest.raises(ConfigError, match="has no such model: did you mean qwen3_vl"):
        _benchmark("mmmu_val", model_name="qwen3vl")


@installed
@pytest.mark.full
@pytest.mark.timeout(300)
def test_masks_are_scored_where_the_run_asks_for_media(address: str, scorer: str, tmp_path: Path) -> None:
    from helpers import harness_rows

    kinds = {"prompt": "text", "suffix": "text", "object": "word", "id": "integer", "image": "image", "mask": "image"}
    harness_rows.make(kinds, rows=6).to_parquet(tmp_path / "points.parquet")
    command = [sys.executable, "-m", "orchestrator", "eval", "--task", "lmms:refspatial_location"]
    command += ["--data", str(tmp_path / "points.parquet"), "--endpoint", address, "--scorer", scorer]
    outcomes = {}
    for name, more in (("without", []), ("with", ["--set", "process_with_media=true"])):
        whole = [*command, *more, "--run", str(tmp_path / name)]
        done = subprocess.run(whole, capture_output=True, text=True, check=False, env=os.environ)
        warning = "the scoring code reads mask, which lmms-eval hands over with --process_with_media alone"
        assert (warning in " ".join((done.stdout + done.stderr).split())) == (name == "without")
        results = json.loads((tmp_path / name / "results.json").read_text())
        outcomes[name] = results["tasks"]["lmms:refspatial_location"]["counts"]
    assert outcomes["without"]["unjudged"] == outcomes["with"]["scored"] == 6
