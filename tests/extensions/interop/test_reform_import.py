"""`orchestrator import reform` and `reform-instructions`, against a real scorer."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.reform_folder import BUILDER

from lyncean_interop.reform_instructions import read_builder
from lyncean_interop.reform_predictions import named_by, predictions
from orchestrator.benchmarks.reform.datasets import DATASETS
from orchestrator.benchmarks.reform.instructions import wording
from orchestrator.cli import main

SHARED = Path(os.environ.get("LYNCEAN_SHARED_DATA", Path(__file__).parents[4] / ".." / "shared" / "data"))
SHIPPED = SHARED / "reform" / "shipped_predictions"
shipped = pytest.mark.skipif(not SHIPPED.exists(), reason="the shipped ReForm-Eval predictions are not here")


def write(path: Path, records) -> Path:
    path.write_text(json.dumps(records))
    return path


def run_import(*args: object):
    return CliRunner().invoke(main, ["import", *map(str, args)])


def metrics(run: Path):
    (entry,) = json.loads((run / "results.json").read_text())["tasks"].values()
    return {metric["name"]: metric for metric in entry["metrics"]} | {"counts": entry["counts"]}


@shipped
def test_shipped_choices(shared_scorer, tmp_path):
    file = SHIPPED / "TDIUC_SingleChoice_likelihood_imagebindLLM_imagebindLLM.json"
    options = ["--formulation", "SingleChoice", "--infer", "likelihood", "--stability"]
    done = run_import("reform", file, *options, "--run", tmp_path / "run", "--scorer", shared_scorer.address)
    assert done.exit_code == 0, done.output
    scores = metrics(tmp_path / "run")
    assert scores["Accuracy"]["value"] == 0.5818181818181818
    assert scores["Instability"]["value"] == 0.7122099355998233
    assert (tmp_path / "run" / "report.html").exists()
    assert (
        json.loads((tmp_path / "run" / "manifest.json").read_text())["model"]["model_name"]
        == "imagebindLLM_imagebindLLM"
    )


@shipped
def test_shipped_key_information(shared_scorer, tmp_path):
    file = SHIPPED / "FUNSD_KIEOpenEnded_generation_blip2_blip2_t5_instruct.json"
    options = ["--formulation", "KIEOpenEnded", "--run", tmp_path / "run", "--scorer", shared_scorer.address, "--quiet"]
    assert run_import("reform", file, *options).exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()]
    assert (sum(line["score"] for line in lines), len(lines)) == (4, 588)
    assert {line["task"] for line in lines} == {"reform_funsd"}
    again = run_import("reform", file, *options)
    assert again.exit_code == 0
    assert len((tmp_path / "run" / "responses.jsonl").read_text().splitlines()) == 588


def test_misses_rounds_and_unequal_groups(shared_scorer, tmp_path):
    def record(sample_id, at, prediction, answer="0"):
        return {
            "sample_id": sample_id,
            "round_id": at,
            "answer": answer,
            "answer_options": ["yes", "no"],
            "prediction": prediction,
        }

    file = write(
        tmp_path / "p.json",
        [
            record("a:0", 0, "(A)"),
            record("a:0", 0, "(B)"),
            record("a:0", 0, "dunno"),
            record("a:0", 0, "what"),
            record("b", 1, "(A) (B)"),
            record("b", 1, "(9)"),
            record("c", 2, "(b)", 1),
        ],
    )
    options = ["--formulation", "SingleChoice", "--stability", "--multi-round"]
    records = json.loads(file.read_text())
    unanswered = write(tmp_path / "q.json", [*records, record("d", 2, None)])
    done = run_import(
        "reform", unanswered, *options, "--run", tmp_path / "null", "--scorer", shared_scorer.address, "--quiet"
    )
    assert metrics(tmp_path / "null")["counts"]["failed"] == 1, done.output
    done = run_import("reform", file, *options, "--run", tmp_path / "run", "--scorer", shared_scorer.address, "--quiet")
    assert done.exit_code == 0, done.output
    scores = metrics(tmp_path / "run")
    assert scores["Accuracy"]["value"] == pytest.approx(3 / 7)
    assert scores["Format hit rate"]["value"] == pytest.approx(5 / 7)
    assert scores["Instability"]["value"] == pytest.approx((math.log(4) + math.log(2) + 0) / 3)
    assert scores["Accuracy over rounds"]["value"] == pytest.approx(0.9819805060619657)
    assert scores["Accuracy over rounds"]["details"]["slope"] == pytest.approx(0.375)
    assert scores["counts"]["unparsed"] == 2


def test_samples_whose_ids_look_alike_are_no_tests_of_one():
    """Else two samples, each always answered alike, would count as one that is unstable."""
    ids = ["a b", "a_b", "a:b", "a b", 1, "1", "a_b~1"]
    items = predictions(
        [{"sample_id": one, "prediction": "(A)", "answer": 0} for one in ids], "SingleChoice", "generation"
    )
    pairs = [(item.key, item.scoring.group) for item in items]
    assert [group for _, group in pairs] == ["a_b", "a_b~1", "a_b~2", "a_b", "1", "1~1", "a_b~1~1"]
    assert [key for key, group in pairs if key != group] == ["a_b#1"]


def test_text_lists(shared_scorer, tmp_path):
    records = [
        {"sample_id": 0, "answer": ["no", "parking"], "prediction": ["it says no", "parking"]},
        {"sample_id": 1, "answer": "exit", "prediction": "entry"},
    ]
    file = write(tmp_path / "p.json", records)
    options = ["--run", tmp_path / "run", "--scorer", shared_scorer.address, "--quiet"]
    assert run_import("reform", file, "--formulation", "OCROpenEnded", *options).exit_code == 0
    assert metrics(tmp_path / "run")["Accuracy"]["value"] == 0.5
    other = run_import("reform", file, "--formulation", "KIEOpenEnded", *options)
    assert other.exit_code == 2


def test_an_import_is_shown_beside_published_results(shared_scorer, tmp_path):
    file = write(tmp_path / "p.json", [{"sample_id": 0, "answer": "no", "prediction": "no"}])
    options = ["--formulation", "OCROpenEnded", "--task", "reform_textocr", "--scorer", shared_scorer.address]
    assert run_import("reform", file, *options, "--run", tmp_path / "run", "--quiet").exit_code == 0
    shown = CliRunner().invoke(main, ["report", str(tmp_path / "run"), "--compare-published"])
    assert shown.exit_code == 0, shown.output


@pytest.mark.parametrize(
    ("records", "options", "says"),
    [
        ([], [], "no predictions"),
        ({}, [], "array"),
        ([{"sample_id": 1}], [], "prediction 1 lacks prediction, answer"),
        ([{"sample_id": 1, "prediction": 1, "answer": 0}], [], "a string"),
        ([{"sample_id": 1, "prediction": True, "answer": 0}], ["--infer", "likelihood"], "an integer"),
        ([{"sample_id": 1, "prediction": 0.0, "answer": 0}], ["--infer", "likelihood"], "an integer"),
        ([{"sample_id": 1, "prediction": "x", "answer": "yes"}], [], "not an index"),
        ([{"sample_id": 1, "prediction": "x", "answer": 1}], ["--multi-round"], "lacks round_id"),
        ([{"sample_id": 1, "prediction": "x"}], ["--formulation", "Generation"], "lacks references"),
        ([{"sample_id": 1}], ["--formulation", "Generation", "--stability"], "needs --formulation SingleChoice"),
        ([{"sample_id": 1}], ["--formulation", "OCROpenEnded", "--infer", "likelihood"], "--infer likelihood needs"),
    ],
)
def test_mistakes_are_one_line(records, options, says, tmp_path):
    file = write(tmp_path / "p.json", records)
    done = run_import("reform", file, "--formulation", "SingleChoice", *options, "--run", tmp_path / "run")
    assert done.exit_code == 2, done.output
    assert says in done.output
    assert "Traceback" not in done.output


def test_names_of_files():
    assert named_by(Path("FUNSD_KIEOpenEnded_generation_blip2_t5.json")) == ("reform_funsd", "blip2_t5")
    assert named_by(Path("MSCOCO_Generation_generation_lynx.json")) == ("reform_mscoco", "lynx")
    assert named_by(Path("VQA_SingleChoice_likelihood_m.json"))[0] == "reform_predictions"
    assert named_by(Path("mine.json")) == ("reform_predictions", "mine")


def test_a_builder_is_read_not_run():
    builder = read_builder("raise SystemExit\n" + BUILDER)
    assert builder.entry() == {
        "generation": ["g0", "g1", "g2", "g3", "g4"],
        "likelihood": ["l0", "l1", "l2", "l3", "l4"],
        "suffix": {"likelihood": " Say so."},
        "question": {"generation": "fixed?"},
    }
    assert read_builder("self.instruction_list = ['a']").entry() == {"generation": ["a"], "likelihood": ["a"]}
    assert not read_builder("if m == 'generation':\n    self.instruction_list = ['a']").whole
    assert not read_builder("self.instruction_list = [f(x)]").whole


def test_instructions_of_a_checkout(tmp_path):
    checkout, output = tmp_path / "checkout", tmp_path / "made" / "texts.json"
    for name in ("VQA/vqa_dataset.py", "MOCHEG/renamed.py", "MSCOCO/caption_dataset.py"):
        file = checkout / "build" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(BUILDER if "caption" not in name else "self.instruction_list = ['c0', 'c1']")
    done = run_import("reform-instructions", checkout, "--output", output)
    assert done.exit_code == 0, done.output
    assert "instructions of 11 datasets" in done.output
    assert "FUNSD" in done.output
    assert wording(DATASETS["reform_gqa"], str(output)).generation[0] == "g0"
    assert wording(DATASETS["reform_mocheg"], str(output)).suffix == {"likelihood": " Say so."}
    assert wording(DATASETS["reform_mscoco"], str(output)).likelihood == ("c0", "c1")


@pytest.mark.parametrize("content", [None, "not python (", ""])
def test_no_checkout(content, tmp_path):
    if content is not None:
        (tmp_path / "build" / "VQA").mkdir(parents=True)
        (tmp_path / "build" / "VQA" / "vqa_dataset.py").write_text(content)
    done = run_import("reform-instructions", tmp_path, "--output", tmp_path / "o.json")
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert not (tmp_path / "o.json").exists()
