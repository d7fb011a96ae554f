"""Predictions of OpenCompass and NeMo Evaluator, and pickles of VLMEvalKit, in the layouts that these tools write."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import pickle
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from helpers.imports import accuracy, run_import, verdicts
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.data.rows import DataError
from orchestrator.interop import nemo_import, opencompass_import
from orchestrator.interop.plain_pickle import PickleError, load_plain

QUESTION = "Which colour?\nA. red\nB. blue\nC. green\nAnswer:"


def of_opencompass(folder: Path, parts: Sequence[list[Any]], details: Any = None) -> Path:
    """Writes the predictions of a data set, in parts, and its results; returns the first file."""
    for kind in ("predictions", "results"):
        (folder / kind / "qwen-7b").mkdir(parents=True)
    names = ["colours.json"] if len(parts) == 1 else [f"colours_{place}.json" for place in range(len(parts))]
    for name, entries in zip(names, parts, strict=True):
        held = {str(place): entry for place, entry in enumerate(entries)}
        (folder / "predictions" / "qwen-7b" / name).write_text(json.dumps(held))
    if details is not None:
        found = {"accuracy": 50.0, "details": details}
        (folder / "results" / "qwen-7b" / "colours.json").write_text(json.dumps(found))
    return folder / "predictions" / "qwen-7b" / names[0]


def test_predictions_of_opencompass_in_parts_beside_its_verdicts(tmp_path: Path) -> None:
    asked = [{"role": "HUMAN", "prompt": QUESTION}]
    parts = [
        [{"origin_prompt": asked, "prediction": "It is B.", "gold": "B"}],
        [{"origin_prompt": QUESTION, "prediction": "Surely C", "gold": "C"}, {"origin_prompt": "?", "prediction": "x"}],
    ]
    details = {
        "type": "GEN",
        "0": {"prompt": QUESTION, "predictions": "I", "references": "B", "correct": False},
        "1": {"prompt": QUESTION, "predictions": "C", "references": "C", "correct": True},
        "2": {"prompt": "?", "predictions": "x", "references": ["exit", "x"], "correct": True},
    }
    told = run_import("opencompass", of_opencompass(tmp_path, parts, details), "--run", tmp_path / "run")
    assert told.exit_code == 0, told.output
    found = verdicts(tmp_path / "run")
    assert {key: (line["rule"], line["score"]) for key, line in found.items()} == {
        "colours/0": ("choice", 1.0), "colours/1": ("choice", 1.0), "colours/2": ("contains_word", 1.0),
    }  # fmt: skip
    assert "OpenCompass: accuracy 66.67 over 3 samples" in told.output
    assert "colours/0  right B  ours B (1)  theirs I (0)  read differently  'It is B.'" in told.output
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["identity"]["model"]["model_name"] == "qwen-7b"


def test_perplexities_and_probabilities_of_opencompass_are_scored_options(tmp_path: Path) -> None:
    label = {"testing input": QUESTION, "prompt": QUESTION}
    entries = [
        {"origin_prompt": QUESTION, "label: A": label | {"PPL": 3.5}, "label: B": label | {"PPL": 1.25}, "gold": "B"},
        {"testing input": QUESTION, "choices": ["A", "B"], "prediction": [0.9, 0.1], "pred_label": 0, "gold": 1},
    ]
    run = tmp_path / "run"
    told = run_import("opencompass", of_opencompass(tmp_path, [entries]), "--run", run)
    assert told.exit_code == 0, told.output
    assert {key: line["extracted"] for key, line in verdicts(run).items()} == {"colours/0": "B", "colours/1": "A"}
    assert accuracy(run) == 50
    assert "the file holds no scores of its own" in told.output


def of_nemo(folder: Path, lines: list[dict[str, Any]]) -> Path:
    """Writes an output folder of NeMo Evaluator, as its command and its runner do."""
    (folder / "byob_colours").mkdir(parents=True)
    (folder / "run_config.yml").write_text(yaml.safe_dump({"target": {"api_endpoint": {"model_id": "llama-3"}}}))
    (folder / "byob_colours" / "byob_results.json").write_text('{"tasks": {"colours": {"metrics": {}}}}')
    path = folder / "byob_colours" / "byob_predictions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def nemo_line(number: int, response: str | None, target: str, correct: bool | None, **more: Any) -> dict[str, Any]:
    row = {"question": "Which colour?", "A": "red", "B": "blue", "answer": target}
    scores = None if correct is None else {"correct": correct, "parsed": response == "B"}
    status = "scored" if response else "skipped_model_error"
    common = {"sample_id": number, "prompt": "Which colour? A red B blue", "target": target, "metadata": row}
    return common | {"response": response, "scores": scores, "status": status, "error": None} | more


def test_an_output_folder_of_nemo_evaluator(tmp_path: Path) -> None:
    lines = [
        nemo_line(0, "B", "B", True),
        nemo_line(1, "The answer: blue", "B", False),
        nemo_line(2, None, "A", None, error="timed out"),
        nemo_line(3, "A", "A", None, status="skipped_scorer_error"),
    ]
    of_nemo(tmp_path / "out", lines)
    run = tmp_path / "run"
    told = run_import("nemo", tmp_path / "out", "--run", run)
    assert told.exit_code == 0, told.output
    found = verdicts(run)
    assert {key: (line["outcome"], line.get("score")) for key, line in found.items()} == {
        "colours/0": ("scored", 1.0), "colours/1": ("scored", 1.0),
        "colours/2": ("failed", None), "colours/3": ("scored", 1.0),
    }  # fmt: skip
    assert "NeMo Evaluator: accuracy 50.00 over 2 samples\n1 of 2 samples are scored differently" in told.output
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["identity"]["model"]["model_name"] == "llama-3"
    assert manifest["identity"]["data"]["colours"]["origin"] == "byob_predictions.jsonl"

    inside = tmp_path / "out" / "lm-eval" / "samples_t_2026-11-24T00-06-01.4.jsonl"
    inside.parent.mkdir()
    arguments = {"gen_args_0": {"arg_0": QUESTION, "arg_1": ""}}
    inside.write_text(
        json.dumps({"doc_id": 0, "arguments": arguments, "resps": [["B"]], "filtered_resps": ["B"], "target": "B"})
    )
    several = run_import("nemo", tmp_path / "out", "--run", tmp_path / "other")
    assert several.exit_code == 2
    assert "holds 2 files of answers" in several.output
    told = run_import("nemo", inside.parent, "--run", tmp_path / "other")
    assert told.exit_code == 0, told.output
    assert accuracy(tmp_path / "other") == 100


def test_a_pickle_of_vlmevalkit_with_its_data(tmp_path: Path) -> None:
    rows = [
        ["index", "question", "A", "B", "answer", "image", "category"],
        [1, "Which?", "red", "blue", "B", "A" * 99, "colour"],
        [2, "Which?", "red", "blue", "A", "A" * 99, "colour"],
        [3, "Which?", "red", "blue", "A", "A" * 99, "text"],
    ]
    with (tmp_path / "MMBench.tsv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t").writerows(rows)
    path = tmp_path / "qwen_MMBench_PREV.pkl"
    path.write_bytes(pickle.dumps({np.int64(1): "B", np.int64(2): {"prediction": "A", "extra_records": [1]}}))
    run = tmp_path / "run"
    assert "give the benchmark's TSV by --data" in run_import("vlmevalkit", path, "--run", run).output
    told = run_import("vlmevalkit", path, "--run", run, "--data", tmp_path / "MMBench.tsv")
    assert told.exit_code == 0, told.output
    assert {key: line["outcome"] for key, line in verdicts(run).items()} == {
        "MMBench/1": "scored", "MMBench/2": "scored", "MMBench/3": "failed",
    }  # fmt: skip
    path.write_bytes(pickle.dumps({7: "B"}))
    told = run_import("vlmevalkit", path, "--run", tmp_path / "other", "--data", tmp_path / "MMBench.tsv")
    assert told.exit_code == 2
    assert "answers index '7'" in told.output


class Bad:
    """A pickle of it runs a command."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


def test_a_pickle_runs_nothing_and_a_table_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path, mark = tmp_path / "m_d.pkl", tmp_path / "mark"
    path.write_bytes(pickle.dumps({1: Bad(mark)}))
    told = run_import("vlmevalkit", path, "--run", tmp_path / "run")
    assert told.exit_code == 2
    assert "system. Nothing of it was loaded" in told.output
    assert not mark.exists()
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"index": [1], "prediction": ["A"]}).to_pickle(path)
    told = run_import("vlmevalkit", path, "--run", tmp_path / "run")
    assert told.exit_code == 2
    assert "it holds an object of pandas." in told.output
    assert "pandas.read_pickle('FILE.pkl').to_csv('FILE.tsv', sep='\\t', index=False)" in told.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("protocol", [4, 5])  # those of Python 3
def test_plain_values_come_back(protocol: int, tmp_path: Path) -> None:
    held = {1: "a", "b": [1.5, None, True, (b"x", {"c"})], np.int64(-7): np.float32(0.5), np.bool_(True): np.uint8(9)}
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(held, protocol))
    assert load_plain(tmp_path / "x.pkl") == held
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(np.zeros(3), protocol))
    with pytest.raises(PickleError, match="numpy"):
        load_plain(tmp_path / "x.pkl")


@given(st.binary(max_size=60), st.integers(0, 60))
def test_a_damaged_pickle_is_an_error_of_its_own(noise: bytes, cut: int) -> None:
    whole = pickle.dumps({np.int64(1): "answer", 2: ["x"]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pkl"
        for data in (noise, whole[:cut] + noise):
            path.write_bytes(data)
            with contextlib.suppress(PickleError):
                load_plain(path)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([{"origin_prompt": "?", "prediction": "x"}], "no right answer is there"),
        ([{"origin_prompt": "?", "prediction": ["a", "b"], "gold": "a"}], "several answers"),
        ([{"origin_prompt": "?", "gold": "a"}], "KeyError"),
        ([[]], "not an object of objects"),
    ],
)
def test_no_predictions_of_opencompass_are_one_line(tmp_path: Path, entries: list[Any], words: str) -> None:
    told = run_import("opencompass", of_opencompass(tmp_path, [entries]), "--run", tmp_path / "run")
    assert told.exit_code == 2
    assert words in told.output
    assert not (tmp_path / "run").exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["origin_prompt", "prediction", "gold", "label: A", "choices"]), JSON))
def test_a_damaged_prediction_of_opencompass_is_an_error_of_the_data(changes: dict[str, Any]) -> None:
    entry = {"origin_prompt": "?", "prediction": "x", "gold": "A"} | changes
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(DataError):
        opencompass_import.read(of_opencompass(Path(folder), [[entry]], {"0": changes}), None, None)


@given(st.dictionaries(st.sampled_from(["sample_id", "prompt", "response", "target", "scores", "metadata"]), JSON))
def test_a_damaged_line_of_nemo_evaluator_is_an_error_of_the_data(changes: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(DataError):
        path = of_nemo(Path(folder) / "out", [nemo_line(0, "B", "B", True) | changes])
        nemo_import.read(path, None, None)
