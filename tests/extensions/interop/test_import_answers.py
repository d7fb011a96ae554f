"""Answers of other tools, taken in from their own files and scored by a real scorer beside the tools' verdicts."""

from __future__ import annotations

import contextlib
import csv
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.imports import accuracy, run_import, verdicts
from helpers.report_runs import Writer
from hypothesis import given, strategies as st

from lyncean_interop import lm_eval_import, vlmevalkit_import
from orchestrator.cli import main
from orchestrator.data.rows import DataError


def test_a_log_of_inspect(tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log")
    writer = Writer(tmp_path / "ours")
    options = ("red", "blue", "green", "tan")
    writer.item("marvel/1", answer="B", score=1.0, targets=["B"], options=options, verdict={"extracted": "B"})
    writer.item("marvel/1#1", answer="B", score=0.0, targets=["B"], options=options, verdict={"extracted": "A"})
    writer.item("marvel/2", answer="I cannot tell.", score=1.0, targets=["A"], options=options)
    writer.item("marvel/3", answer="It says EXIT.", score=1.0, targets=["exit"], options=())
    error = {"code": "INTERNAL", "reason": "broken", "message": "it broke"}
    writer.item("marvel/4", outcome="failed", error=error, targets=["A"], options=options)
    exported = CliRunner().invoke(
        main, ["export", str(writer.close()), "--format", "inspect", "--output", str(tmp_path / "logs")]
    )
    (path,) = exported.output.split()
    assert len(log.read_eval_log(path).samples) == 5
    run = tmp_path / "run"
    done = run_import("inspect", path, "--run", run)
    assert done.exit_code == 0, done.output
    by_key = verdicts(run)
    assert {key: (line["outcome"], line.get("score")) for key, line in by_key.items()} == {
        "marvel/1": ("scored", 1.0), "marvel/1#1": ("scored", 1.0), "marvel/2": ("unparsed", 0.0),
        "marvel/3": ("scored", 1.0), "marvel/4": ("failed", None),
    }  # fmt: skip
    assert "Inspect: accuracy 60.00 over 5 samples" in done.output
    assert "2 of 5 samples are scored differently" in done.output
    assert "marvel/1#1  right B  ours B (1)  theirs A (0)  read differently  'B'" in done.output
    assert (run / "report.html").exists()
    assert "holds a run already" in run_import("inspect", path, "--run", run).output


def lm_eval_line(number: int, prompts: list[tuple[str, str]], responses: list[Any], **more: Any) -> dict[str, Any]:
    arguments = {f"gen_args_{index}": {"arg_0": a, "arg_1": b} for index, (a, b) in enumerate(prompts)}
    filtered = [response[0] for response in responses]
    return {"doc_id": number, "doc": {}, "arguments": arguments, "resps": responses, "filtered_resps": filtered} | more


def test_samples_of_lm_eval_by_generation_and_by_likelihood(tmp_path: Path) -> None:
    prompt = "Which colour?\nA. red\nB. blue\nC. green\nAnswer:"
    lines = [
        lm_eval_line(0, [(prompt, "")], [["The answer is B."]], target="B", metrics=["exact_match"], exact_match=0.0),
        lm_eval_line(1, [(prompt, "")], [["C"]], target="C", metrics=["exact_match"], exact_match=1.0),
        lm_eval_line(2, [("Is it raining?", "")], [["Yes, it is."]], target="yes", metrics=["acc"], acc=1.0),
    ]
    path = tmp_path / "some__model" / "samples_mine_2026-11-24T00-06-01.436358.jsonl"
    path.parent.mkdir()
    unanswered = lm_eval_line(3, [("Is it?", "")], [["x"]], target="yes") | {"resps": [[]], "filtered_resps": []}
    lines.append(unanswered)
    path.write_text("".join(json.dumps(line) + "\n" for line in (*lines, lines[0] | {"filter": "second"})))
    done = run_import("lm-eval", path, "--run", tmp_path / "run")
    assert done.exit_code == 0, done.output
    by_key = verdicts(tmp_path / "run")
    assert by_key.pop("mine/3")["outcome"] == "failed"
    assert {line["score"] for line in by_key.values()} == {1.0}
    assert accuracy(tmp_path / "run") == 75  # of all samples
    assert {key: line["rule"] for key, line in by_key.items()} == {
        "mine/0": "choice", "mine/1": "choice", "mine/2": "two_way",
    }  # fmt: skip
    assert "lm-evaluation-harness: accuracy 66.67 over 3 samples" in done.output
    assert "1 of 3 samples are scored differently\n  1 read here, only scored there" in done.output
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["identity"]["model"]["model_name"], manifest["identity"]["method"]) == ("some__model", "generate")

    options = [(prompt, " red"), (prompt, " blue"), ("", " red"), ("", " blue")]
    scores = [[["-3.5", "False"]], [["-0.25", "True"]], [["-9.0", "False"]], [["-8.0", "False"]]]
    scored = [
        lm_eval_line(0, options, scores, target="1", metrics=["acc"], acc=1.0),
        lm_eval_line(1, options, scores, target=" red", metrics=["acc"], acc=1.0),
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in scored))
    done = run_import("lm-eval", path, "--run", tmp_path / "likelihood", "--model", "m", "--task", "t")
    assert done.exit_code == 0, done.output
    assert [line["extracted"] for line in verdicts(tmp_path / "likelihood").values()] == [" blue", " blue"]
    assert accuracy(tmp_path / "likelihood") == 50
    assert "1 of 2 samples are scored differently" in done.output


@pytest.mark.parametrize("suffix", [".tsv", ".xlsx"])
def test_a_prediction_table_of_vlmevalkit(tmp_path: Path, suffix: str) -> None:
    rows = [
        ["index", "question", "A", "B", "C", "answer", "prediction", "category", "hit"],
        [1, "Which?", "red", "blue", "", "B", "Option B, clearly.", "colour", 1],
        [2, "Which?", "red", "blue", "tan", "A", "B", "colour", 1],
        [3, "What is written?", "", "", "", "exit", "It says Exit", "text", 0],
        [4, "Which?", "red", "blue", "", "A", "Failed to obtain answer via API.", "colour", 0],
    ]
    path = tmp_path / f"qwen_MMBench_DEV_EN{suffix}"
    if suffix == ".tsv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t").writerows(rows)
    else:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(path)
    done = run_import("vlmevalkit", path, "--run", tmp_path / "run")
    assert done.exit_code == 0, done.output
    by_key = verdicts(tmp_path / "run")
    assert {key: (line["outcome"], line.get("score")) for key, line in by_key.items()} == {
        "MMBench_DEV_EN/1": ("scored", 1.0), "MMBench_DEV_EN/2": ("scored", 0.0),
        "MMBench_DEV_EN/3": ("scored", 1.0), "MMBench_DEV_EN/4": ("failed", None),
    }  # fmt: skip
    assert by_key["MMBench_DEV_EN/1"]["labels"] == {"category": "colour"}
    assert "VLMEvalKit: accuracy 50.00 over 4 samples" in done.output
    assert "2 of 4 samples are scored differently" in done.output


@pytest.mark.parametrize(
    ("kind", "name", "text", "message"),
    [
        ("lm-eval", "samples.jsonl", "{}", "give --task"),
        ("lm-eval", "samples_t_2026-11-24T00-06-01.4.jsonl", "[]", "line 1: TypeError"),
        ("lm-eval", "samples_t_2026-11-24T00-06-01.4.jsonl", "{", "line 1, is not JSON"),
        ("lm-eval", "samples_t_2026-11-24T00-06-01.4.jsonl", "", "holds no answers"),
        ("vlmevalkit", "m_d.tsv", "index\tquestion\n1\t2\n", "has no column answer, prediction"),
        ("vlmevalkit", "m.tsv", "index\n", "give --task"),
        (
            "vlmevalkit",
            "m_d.tsv",
            "index\tquestion\tanswer\tprediction\n1\tq\ta\tp\n1\tq\ta\tp\n",
            "the key '1' stands twice",
        ),
        ("inspect", "x.eval", "no log", "cannot be read as a log of Inspect"),
    ],
)
def test_files_that_are_none_are_one_line(tmp_path: Path, kind: str, name: str, text: str, message: str) -> None:
    if kind == "inspect":
        pytest.importorskip("inspect_ai")
    (tmp_path / name).write_text(text)
    done = run_import(kind, tmp_path / name, "--run", tmp_path / "run")
    assert done.exit_code != 0
    assert message in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", ["-inf", "nan"])
def test_a_log_likelihood_that_is_not_finite_is_one_line(value: str, tmp_path: Path) -> None:
    path = tmp_path / "samples_t_2026-11-24T00-06-01.436358.jsonl"
    responses = [[[value, "False"]], [["-1.0", "True"]]]
    path.write_text(json.dumps(lm_eval_line(0, [("q", " a"), ("q", " b")], responses, target="1")) + "\n")
    done = run_import("lm-eval", path, "--run", tmp_path / "run")
    assert (done.exit_code, "a value is not a finite number" in done.output) == (2, True), done.output
    assert not (tmp_path / "run").exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["doc_id", "arguments", "resps", "target", "filtered_resps", "metrics"]), JSON))
def test_a_damaged_line_of_lm_eval_is_an_error_of_the_data(changes: dict[str, Any]) -> None:
    line = lm_eval_line(0, [("q", " a"), ("q", " b")], [[["-1", "True"]], [["-2", "False"]]], target="0") | changes
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples_t_2026-11-24T00-06-01.4.jsonl"
        path.write_text(json.dumps(line) + "\n")
        with contextlib.suppress(DataError):
            (answer,) = lm_eval_import.read(path, None, None).answers
            assert answer.text == "" or not answer.likelihoods


@given(st.lists(st.lists(st.text(alphabet='aA1\t\n"\x00é', max_size=6), max_size=6), max_size=4))
def test_a_damaged_table_of_vlmevalkit_is_an_error_of_the_data(rows: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m_d.tsv"
        lines = ["index\tquestion\tanswer\tprediction\tA\thit", *("\t".join(row) for row in rows)]
        path.write_bytes("\n".join(lines).encode())
        with contextlib.suppress(DataError):
            assert all(answer.key is not None for answer in vlmevalkit_import.read(path, None, None).answers)
