"""Samples of other harnesses: scored by the task's own code where its data are given, by our rules otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.toy_harness import ToyHarness, write

from lyncean_interop import lmms_eval_answers
from lyncean_interop.answers import Answer, ToolAnswers
from lyncean_interop.bridged import Bridged, _items, _same
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
    return next(entry["value"] for entry in task["metrics"] if entry["name"] == name)


def test_the_task_s_own_code_scores_what_its_harness_has_asked(tmp_path: Path) -> None:
    toy = ToyHarness(tmp_path)
    docs = [json.loads(line) for line in Path(toy.data).read_text().splitlines()]
    rows = [(doc["question"], doc["answer"], doc["answer"] if at else "?", 1.0) for at, doc in enumerate(docs)]
    path = samples(tmp_path / "model" / "samples_compares_2026-11-24T00-06-01.436358.jsonl", rows)

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orchestrator", "import", "lm-eval", str(path), *args]
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


CHOOSES = """
task: chooses
dataset_path: nobody/none
test_split: test
output_type: multiple_choice
process_results: !function choosing.results
metric_list: [{metric: acc}]
"""
TWICE = """
task: twice
dataset_path: nobody/none
test_split: test
output_type: generate_until
repeats: 2
process_results: !function plain.results
metric_list: [{metric: right}]
"""
CHOOSING = """
def results(doc, answers):
    logprobs = [logprob for logprob, _ in answers]
    return {"acc": float(logprobs.index(max(logprobs)) == doc["answer"])}
"""


def test_documents_of_several_answers_and_scored_options_are_taken(tmp_path: Path) -> None:
    toy = ToyHarness(tmp_path)
    write(toy.tasks, {"chooses.yaml": CHOOSES, "twice.yaml": TWICE, "choosing.py": CHOOSING})
    docs = [{"question": "Which?", "choices": ["a cat", "two dogs", "a bird"], "answer": at} for at in (1, 2)]
    data = tmp_path / "choices.jsonl"
    data.write_text("".join(json.dumps(doc) + "\n" for doc in docs))

    def run(task: str, lines: list[dict[str, Any]], *args: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / task / f"samples_{task}_2026-11-24T00-06-01.436358.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [sys.executable, "-m", "orchestrator", "import", "lm-eval", str(path), *args]
        return subprocess.run(command, env=toy.environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    own_code = ("--include-path", "tasks")
    scored = [["-9.5", "False"], ["-0.25", "True"], ["-3.0", "False"]]
    chosen: list[dict[str, Any]] = [
        {
            "doc_id": at, "doc": {}, "target": str(at + 1), "metrics": ["acc"], "acc": 1.0 - at, "filter": "none",
            "arguments": {f"gen_args_{n}": {"arg_0": "Which?", "arg_1": f" {c}"} for n, c in enumerate(doc["choices"])},
            "resps": [[option] for option in scored], "filtered_resps": scored,
        }
        for at, doc in enumerate(docs)
    ]  # fmt: skip
    done = run("chooses", chosen, *own_code, "--data", str(data), "--run", "chosen")
    assert done.returncode == 0, done.stderr + done.stdout
    assert metric(tmp_path / "chosen", "acc") == 0.5
    assert "0 of 2 samples are scored differently" in done.stdout
    (first, *_) = open_run(tmp_path / "chosen")
    assert first.response["request"]["continuations"] == [" a cat", " two dogs", " a bird"]
    two = {"arguments": dict(list(chosen[0]["arguments"].items())[:2]), "resps": [[option] for option in scored[:2]]}
    other = run("chooses", [{**line, **two} for line in chosen], *own_code, "--data", str(data), "--run", "short")
    assert (other.returncode, "has another number of answers there" in other.stderr) == (2, True)

    rows = [json.loads(line) for line in toy.data.read_text().splitlines()]
    twice = [
        {
            "doc_id": at, "doc": {}, "target": "3", "metrics": ["right"], "right": 1.0, "filter": "none",
            "arguments": {"gen_args_0": {"arg_0": row["question"], "arg_1": {}}},
            "resps": [["3", "4"] if at else ["5", "3"]], "filtered_resps": ["3"],
        }
        for at, row in enumerate(rows)
    ]  # fmt: skip
    done = run("twice", twice, *own_code, "--data", str(toy.data), "--run", "asked-twice")
    assert done.returncode == 0, done.stderr + done.stdout
    assert metric(tmp_path / "asked-twice", "right") == 0.5  # by the first answer of each
    keys = [f"lm-eval:twice/{at}:repeat{repeat}" for at in (0, 1) for repeat in (1, 2)]
    assert [item.key for item in open_run(tmp_path / "asked-twice")] == keys
    assert "the 4 answers of the documents are scored together" in done.stdout
    assert not (tmp_path / "asked-twice" / "reported").exists()


@pytest.mark.parametrize(("keys", "message"), [("", "holds no answers"), ("011", "the key '1' stands twice")])
def test_no_document_is_taken_twice(keys: str, message: str, tmp_path: Path) -> None:
    """A row that a table has twice would count twice in the metrics of the task's own code."""
    imported = ToolAnswers("VLMEvalKit", "Toy", "model", [Answer(key, "?", "A", ("A",)) for key in keys])
    with pytest.raises(DataError, match=message):
        Bridged("vlmevalkit", "toy.tsv").take(imported, tmp_path / "m_Toy.tsv", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rounds_and_answers_to_a_drawing_are_told_apart() -> None:
    def ask(_: object) -> Call:
        raise AssertionError

    def turns(*names: str) -> tuple[Turn, ...]:
        return tuple(Turn(ask, name, Scoring("harness_task", (), (), {})) for name in names)

    drawn = Sample("lmms:t/0", (Turn(ask, "drawing"), *turns("answer")))
    path = Path("samples.jsonl")
    (only,) = _items(Answer("0", "?", "A", ()), {"0": drawn}, path, "rows.jsonl")
    assert (only.key, only.answer.text) == ("lmms:t/0:answer", "A")
    sample = Sample("lmms:t/0", turns("round1", "round2"))
    answer = Answer("0", "?", "A", (), responses=["A", "B"])
    assert [(item.key, item.answer.text) for item in _items(answer, {"0": sample}, path, "rows.jsonl")] == [
        ("lmms:t/0:round1", "A"),
        ("lmms:t/0:round2", "B"),
    ]
    with pytest.raises(DataError, match="document 0 is asked 2 times"):
        list(_items(Answer("0", "?", "A", ()), {"0": sample}, path, "rows.jsonl"))


def test_targets_of_lmms_eval_are_texts_of_lists_and_places_of_options() -> None:
    assert _same(("0.1", "0.5"), ("[0.1, 0.5]",), ())
    assert _same(("a cat", "it's"), ("""['a cat', "it's"]""",), ())
    assert _same(("1",), ("two dogs",), ("a cat", "two dogs"))
    assert _same(("1",), ("B",), ("a cat", "two dogs"))
    assert not _same(("1",), ("a cat",), ("a cat", "two dogs"))
    assert not _same(("0.1", "0.5"), ("[0.1, 0.6]",), ())


def test_likelihoods_of_lmms_eval_are_read_and_scored_by_our_rule(tmp_path: Path) -> None:
    path = tmp_path / "model" / "20261124_000601_samples_mmlu_x.jsonl"
    path.parent.mkdir()
    losses = [["2.5", "False"], ["0.25", "True"], ["1.0", "False"]]
    line = {"target": "1", "input": "Which?", "resps": [[loss] for loss in losses], "filtered_resps": losses}
    lines = [{**line, "doc_id": 0, "acc": 1.0}, {**line, "doc_id": 1, "target": "C", "acc": 1.0}]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    done = CliRunner().invoke(main, ["import", "lmms-eval", str(path), "--run", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert [item.score for item in open_run(tmp_path / "run")] == [1.0, 0.0]
    assert "1 of 2 samples are scored differently" in done.output
    path.write_text(json.dumps({**lines[0], "target": "a cat"}) + "\n")
    done = CliRunner().invoke(main, ["import", "lmms-eval", str(path), "--run", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert "does not say which option of 0 is 'a cat': give --data" in done.output


def test_any_samples_of_lmms_eval_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "model" / "20261124_000601_samples_some-task.jsonl"
    path.parent.mkdir()
    lines = [
        {"doc_id": at, "target": "yes", "filtered_resps": [answer], "input": "Is it red?", "exact_match": score}
        for at, (answer, score) in enumerate([("Yes.", 1.0), ("no", 0.0), ("yes", 0.0)])
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings: dict[str, Any] = {
        "generation_kwargs": {"max_new_tokens": 16, "temperature": 1, "do_sample": True, "until": ["\n\n"]}
    }
    path.with_name("20261124_000601_results.json").write_text(json.dumps({"configs": {"some-task": settings}}))
    done = CliRunner().invoke(main, ["import", "lmms-eval", str(path), "--run", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "1 of 3 samples are scored differently" in done.output
    assert {item.outcome for item in open_run(tmp_path / "run")} == {"scored"}
    assert next(iter(open_run(tmp_path / "run"))).response["request"]["config"] == {
        "max_output_tokens": 16, "temperature": 1.0,
    }  # fmt: skip
    settings["output_type"] = "generate_visual_cot"  # which only its simple models answer
    path.with_name("20261124_000601_results.json").write_text(json.dumps({"configs": {"some-task": settings}}))
    assert lmms_eval_answers.read(path, None, None).answers[0].config == {
        "max_output_tokens": 16, "temperature": 1.0, "stop": ["\n\n"],
    }  # fmt: skip
    args = ["import", "lmms-eval", str(path), "--run", str(tmp_path / "no"), "--data", "rows.parquet"]
    assert "cannot be scored by its own code" in CliRunner().invoke(main, args).output
    assert "--reading is for V*-Bench" in CliRunner().invoke(main, [*args, "--reading", "both"]).output
    assert (
        "--set is for the task's own code" in CliRunner().invoke(main, [*args[:-2], "--set", "messages=simple"]).output
    )
