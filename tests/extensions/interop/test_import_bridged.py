"""Samples of other harnesses: scored by the task's own code where its data are given, by our rules otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.toy_harness import ToyHarness

from lyncean_interop.answers import Answer
from lyncean_interop.bridged import _item
from orchestrator.cli import main
from orchestrator.data import DataError
from orchestrator.run_folder import open_run
from orchestrator.samples import Call, Sample, Scoring, Turn


def samples(path: Path, rows: list[tuple[str, str, str, float]]) -> Path:
    """A file of samples of lm-evaluation-harness: question, target, answer and score of each document."""
    path.parent.mkdir()
    lines = [
        {
            "doc_id": number, "doc": {}, "target": target, "metrics": ["right"], "right": score, "filter": "none",
            "arguments": {"gen_args_0": {"arg_0": question, "arg_1": {"until": ["\n"], "max_gen_toks": 64}}},
            "resps": [[answer]], "filtered_resps": [answer],
        }
        for number, (question, target, answer, score) in enumerate(rows)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def metric(run: Path, name: str) -> Any:
    (task,) = json.loads((run / "results.json").read_text())["tasks"].values()
    return next(found["value"] for found in task["metrics"] if found["name"] == name)


def test_the_task_s_own_code_scores_what_its_harness_has_asked(tmp_path: Path) -> None:
    toy = ToyHarness(tmp_path)
    docs = [json.loads(line) for line in Path(toy.data).read_text().splitlines()]
    rows = [(doc["question"], doc["answer"], doc["answer"] if at else "?", 1.0) for at, doc in enumerate(docs)]
    path = samples(tmp_path / "model" / "samples_compares_2026-11-24T00-06-01.436358.jsonl", rows)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orchestrator", "import", "lm-eval", str(path), *words]
        return subprocess.run(command, env=toy.environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run("--data", str(toy.data), "--include-path", "tasks", "--run", "taken")
    assert done.returncode == 0, done.stderr + done.stdout
    assert metric(tmp_path / "taken", "right") == (len(docs) - 1) / len(docs)
    first, *_ = open_run(tmp_path / "taken")
    assert (first.key, first.scoring["rule"], first.outcome) == ("lm-eval:compares/0", "harness_task", "scored")
    assert first.response["request"]["config"] == {"max_output_tokens": 64, "stop": ["\n"]}
    assert metric(tmp_path / "taken" / "reported", "right") == 1  # as the tool says

    rows[1] = (rows[1][0], "another", *rows[1][2:])
    path.unlink()
    path.parent.rmdir()
    samples(path, rows)
    other = run("--data", str(toy.data), "--include-path", "tasks", "--run", "other")
    assert other.returncode == 2
    assert "the right answer to document 1 is 'another' there" in other.stderr


def test_a_document_that_is_asked_for_a_drawing_first_is_not_taken() -> None:
    def ask(_: object) -> Call:
        raise AssertionError

    sample = Sample("lmms:t/0", (Turn(ask, "drawing"), Turn(ask, "answer", Scoring("harness_task", (), (), {}))))
    with pytest.raises(DataError, match="a document is asked 2 times"):
        _item(Answer("0", "?", "A", ()), {"0": sample}, Path("samples.jsonl"), "rows.jsonl")


def test_any_samples_of_lmms_eval_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "model" / "20261124_000601_samples_some-task.jsonl"
    path.parent.mkdir()
    lines = [
        {"doc_id": at, "target": "yes", "filtered_resps": [answer], "input": "Is it red?", "exact_match": score}
        for at, (answer, score) in enumerate([("Yes.", 1.0), ("no", 0.0), ("yes", 0.0)])
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {"generation_kwargs": {"max_new_tokens": 16, "temperature": 1, "do_sample": True, "until": ["\n\n"]}}
    path.with_name("20261124_000601_results.json").write_text(json.dumps({"configs": {"some-task": settings}}))
    done = CliRunner().invoke(main, ["import", "lmms-eval", str(path), "--run", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "1 of 3 samples are scored differently" in done.output
    assert {item.outcome for item in open_run(tmp_path / "run")} == {"scored"}
    assert next(iter(open_run(tmp_path / "run"))).response["request"]["config"] == {
        "max_output_tokens": 16, "temperature": 1.0,
    }  # fmt: skip
    asked = ["import", "lmms-eval", str(path), "--run", str(tmp_path / "no"), "--data", "rows.parquet"]
    assert "cannot be scored by its own code" in CliRunner().invoke(main, asked).output
    assert "--reading is for V*-Bench" in CliRunner().invoke(main, [*asked, "--reading", "both"]).output
