"""An import that comes to no result has the exit code of `eval` and `score`, and says the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.imports import run_import

from orchestrator.errors import LimitError


def lm_eval(folder: Path, answers: list[str]) -> Path:
    path = folder / "model" / "samples_mine_2026-11-24T00-06-01.436358.jsonl"
    path.parent.mkdir(parents=True)
    prompt = "Which colour?\nA. red\nB. blue\nC. green\nAnswer:"
    arguments = {"gen_args_0": {"arg_0": prompt, "arg_1": ""}}
    lines = [
        {
            "doc_id": n,
            "doc": {},
            "arguments": arguments,
            "resps": [[answer]],
            "filtered_resps": [answer],
            "target": "ABC"[n % 3],
        }
        for n, answer in enumerate(answers)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def lmms_eval(folder: Path, answers: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "d_samples_vstar_bench.jsonl"
    prompt = "Which colour?\n(A) red\n(B) blue\n(C) green\n(D) tan"
    lines = [
        {
            "doc_id": n,
            "target": "ABC"[n % 3],
            "filtered_resps": [answer],
            "resps": [[answer]],
            "input": prompt,
            "doc_hash": str(n),
            "vstar_direct_attributes_acc": (
                metric := {"question_id": n, "category": "direct_attributes", "score": 0.0}
            ),
            "vstar_overall_acc": metric,
        }
        for n, answer in enumerate(answers)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(("kind", "write"), [("lm-eval", lm_eval), ("lmms-eval", lmms_eval)])
def test_an_import_without_a_result_ends_with_4(
    kind: str, write: Callable[[Path, list[str]], Path], tmp_path: Path
) -> None:
    path = write(tmp_path, ["I like this picture."] * 12)
    done = run_import(kind, path, "--run", tmp_path / "run")
    assert done.exit_code == LimitError.exit_code == 4, done.output
    assert "Error:" in done.output
    assert "12 of 12 answers could not be read" in " ".join(done.output.split())
    assert f"run: {tmp_path / 'run'}" in done.output
    again = run_import(kind, write(tmp_path / "good", ["A", "B", "C"] * 4), "--run", tmp_path / "read")
    assert again.exit_code == 0, again.output
