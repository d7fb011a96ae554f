"""The loader gives out the reference's dicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.reform_folder import write_folder
from PIL import Image

from orchestrator.benchmarks.reform.datasets import DATASETS
from orchestrator.benchmarks.reform.layouts import ConvSingleChoiceProcessor
from orchestrator.benchmarks.reform.loader import load_reform_dataset, loader_eval


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    write_folder(folder, 2)
    return folder


def load(hub, task, **given):
    dataset = DATASETS[task]
    given = {"data": str(hub), **given}
    return load_reform_dataset(
        dataset.dataset_name, dataset.formulations[0], f"/x/build/configs/{dataset.config}.yaml", **given
    )


@pytest.mark.parametrize("method", ["generation", "likelihood"])
@pytest.mark.parametrize("task", DATASETS)
def test_each_of_the_61(task, method, hub):
    dataset = load(hub, task, inference_method=method)
    rounds = 4 if DATASETS[task].family == "dialog" else 1
    assert len(dataset) == 2 * rounds * 5
    for item in dataset[:6]:
        assert isinstance(item["image"], Image.Image)
        assert item["image"].mode == "RGB"
        assert {"sample_id", "question"} <= set(item)
        assert ("references" in item) != ("answer" in item)
        if "answer_options" in item:
            assert isinstance(item["answer"], str if DATASETS[task].index_as_text else int)
            assert 0 <= int(item["answer"]) < len(item["answer_options"])
            assert " Options: (" in item["question_with_option"]


def test_a_sample_of_vqa(hub):
    item = load(hub, "reform_gqa", option_mark="upper", shuffle_options=False)[6]
    assert list(item) == [
        "sample_id", "image", "question", "answer_options", "instruct", "history", "answer", "question_with_option",
    ]  # fmt: skip
    assert item["sample_id"] == 1
    assert item["history"][0]["from"] == "human"
    assert item["question_with_option"].startswith(item["question"] + " Options: (A) ")


def test_tests_of_one_sample_share_its_id_and_keep_the_answer(hub):
    dataset = load(hub, "reform_medic")
    colours = {item["answer_options"][int(item["answer"])] for item in dataset[:5]}
    assert len(colours) == 1
    assert len({item["sample_id"] for item in dataset[:5]}) == 1
    assert len({tuple(item["answer_options"]) for item in dataset[:5]}) > 1
    assert len({item["question"] for item in dataset[:5]}) == 5


def test_processor_renders_and_captions_lose_its_prefix(hub):
    processor = ConvSingleChoiceProcessor("\n", roles=["U", "B"], sep_style="one", response_prefix="The answer is")
    item = load(hub, "reform_visdial", preprocessor=processor, option_mark="upper", data_duplication=1)[2]
    assert item["round_id"] == 2
    assert item["text"].startswith(f"U: {item['instruct']} Can you see the image? Options: (A) Yes")
    assert item["text"].count("B: The answer is (") == 3
    assert item["text"].endswith("\nB: The answer is")
    assert load(hub, "reform_mscoco", preprocessor=processor)[0]["text"].endswith("\nB:")
    assert processor.response_prefix == "The answer is"


def test_online_history(hub):
    dataset = load(hub, "reform_visdial", data_duplication=1, option_mark="upper")
    true = dataset[1]["history"]
    dataset.update_history([[(dataset[0]["sample_id"], "no idea")]])
    assert dataset[1]["history"][:-1] == true[:-1]
    assert dataset[1]["history"][-1] == {"from": "assistant", "value": "no idea"}


def test_repeatable_and_seeded(hub):
    def drawn(seed):
        return [(item["answer_options"], item["question_with_option"]) for item in load(hub, "reform_gqa", seed=seed)]

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"inference_method": "guess"}, "generation or likelihood"),
        ({"data_duplication": 3}, "multiple of 5"),
        ({"data": None, "load_from_hf": False}, "load_from_hf"),
    ],
)
def test_mistaken_arguments(given, says, hub):
    with pytest.raises(ValueError, match=says):
        load(hub, "reform_gqa", **given)


def test_names(hub):
    assert len(load_reform_dataset("GQA", "SingleChoice", {"config": "VQA_gqa_val_v2.0"}, data=str(hub))) == 10
    assert len(load_reform_dataset("reform_gqa", "SingleChoice", data=str(hub))) == 10
    assert len(load_reform_dataset("FUNSD", "KIEOpenEnded", data=str(hub))) == 10
    with pytest.raises(ValueError, match="stands for several"):
        load_reform_dataset("VQA", "SingleChoice", data=str(hub))
    with pytest.raises(ValueError, match="no formulation Generation"):
        load_reform_dataset("VQA", "Generation", "VQA_gqa_val_v2.0.yaml", data=str(hub))
    with pytest.raises(ValueError, match="no dataset with configuration"):
        load_reform_dataset("VQA", "SingleChoice", "nope.yaml", data=str(hub))


def test_loader_and_scoring_meet(hub, tmp_path):
    dataset = load(hub, "reform_gqa", option_mark="upper")
    records = []
    for item in dataset:
        record = {key: value for key, value in item.items() if key != "image"}
        records.append(record | {"prediction": f"({'ABCD'[int(item['answer'])]})"})
    file = tmp_path / "p.json"
    file.write_text(json.dumps(records))
    assert loader_eval("SingleChoice", "generation", False, True, str(file)) == {
        "Accuracy": 1.0,
        "Format hit rate": 1.0,
        "Instability": 0.0,
    }
    with pytest.raises(ValueError, match="SingleChoice"):
        loader_eval("Generation", "generation", True, False, str(file))
