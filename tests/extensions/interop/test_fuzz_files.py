"""Files of other tools with any content, which are read or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.fuzzing import FEW, mixed, taken, trees
from hypothesis import example, given, strategies as st

from lyncean_interop import lmms_eval_samples
from lyncean_interop.reform_predictions import predictions, read_file
from orchestrator.benchmarks.reform.datasets import FORMULATIONS, METHODS
from orchestrator.data.rows import DataError

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


samples = mixed(
    doc_id=st.integers(0, 9) | st.integers(0, 9).map(str),
    target=st.sampled_from("ABCD"),
    filtered_resps=st.lists(st.lists(st.text(max_size=8), max_size=2), max_size=2),
    input=st.text(max_size=20),
    arguments=st.lists(trees, max_size=2),
    doc=mixed(category=st.text(max_size=8)),
    exact_match=st.floats(),
    vstar_overall_acc=mixed(score=st.floats(), category=st.text(max_size=5)),
)


@given(lines=st.lists(samples | trees, max_size=3), task=st.sampled_from(["vstar_bench", "VisualPuzzles_cot"]))
@example(lines=[3], task="vstar_bench")
@example(lines=[{"doc_id": "x", "target": "A", "filtered_resps": []}], task="vstar_bench")
@example(lines=[{"doc_id": [1], "target": "A", "filtered_resps": []}], task="vstar_bench")
@FEW
def test_any_samples_of_lmms_eval_are_read_or_refused(folder: Path, lines: list[Any], task: str) -> None:
    file = folder / "samples.jsonl"
    file.write_bytes(b"\n".join(json.dumps(line).encode() for line in lines))
    answers = taken(lambda: list(lmms_eval_samples.read(file, task))) or ()
    assert all(isinstance(one.text, str) and one.key.removeprefix("-").isdecimal() for one in answers)


records = mixed(
    sample_id=st.text(max_size=5) | st.integers(0, 3),
    prediction=st.text(max_size=8) | st.integers(-1, 4),
    answer=st.integers(-1, 4) | st.text(max_size=5),
    references=st.lists(st.text(max_size=5), max_size=2),
    answer_options=st.lists(st.text(max_size=5), max_size=4),
    round_id=st.integers(0, 3),
    text=st.text(max_size=8),
    question=st.text(max_size=8),
)


@given(
    content=st.lists(records, max_size=3) | trees,
    formulation=st.sampled_from(FORMULATIONS),
    method=st.sampled_from(METHODS),
    rounds=st.booleans(),
)
@example(
    content=[{"sample_id": 1, "prediction": "A", "answer": 0, "answer_options": 7}],
    formulation="SingleChoice",
    method="generation",
    rounds=False,
)
@example(
    content=[{"sample_id": 1, "prediction": "A", "answer": float("inf")}],
    formulation="SingleChoice",
    method="generation",
    rounds=False,
)
@FEW
def test_any_predictions_are_read_or_refused(
    folder: Path, content: Any, formulation: str, method: str, rounds: bool
) -> None:
    file = folder / "predictions.json"
    file.write_text(json.dumps(content))
    answers = taken(lambda: list(predictions(read_file(file), formulation, method, rounds=rounds))) or ()
    assert all(isinstance(one.text, str) and isinstance(one.prompt, str) for one in answers)


@given(content=st.binary(max_size=40))
@example(b"[" * 100_000)
@FEW
def test_any_bytes_are_no_predictions(folder: Path, content: bytes) -> None:
    file = folder / "predictions.json"
    file.write_bytes(content)
    with pytest.raises(DataError):
        read_file(file)
