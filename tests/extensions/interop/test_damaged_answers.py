"""Files of other tools that are cut short, damaged, or two in one: one line, and no run folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.imports import run_import, verdicts

TABLE = "index\tquestion\tanswer\tprediction\tcategory\n1\tIs it?\tyes\tYes.\ttext\n2\tIs it?\tno\tYes.\ttext\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TABLE[:-12], "line 3: the row has not as many cells as the header: is the file damaged, or cut short?"),
        (TABLE.replace("Yes.\ttext\n2", "Yes.\tand\ttext\n2"), "line 2: the row has not as many cells"),
        (TABLE.replace("text\n2", "text\0\0" + "2"), "line 2: the row has not as many cells"),
        ("<!DOCTYPE html><html>404: not found</html>\n", "has no column index, question, answer, prediction"),
        ("", "holds no answers"),
    ],
    ids=["cut short", "a tab in an answer", "zeros", "a page", "empty"],
)
def test_a_damaged_table_has_no_rows_without_an_answer(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "qwen_MMBench.tsv"
    path.write_text(content)
    done = run_import("vlmevalkit", path, "--run", tmp_path / "run")
    assert (done.exit_code, message in done.output) == (2, True), done.output
    assert not (tmp_path / "run").exists()


def test_a_table_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "qwen_MMBench.tsv"
    path.write_text(TABLE, encoding="utf-8-sig")
    assert run_import("vlmevalkit", path, "--run", tmp_path / "run").exit_code == 0
    scores = {key: line["score"] for key, line in verdicts(tmp_path / "run").items()}
    assert scores == {"MMBench/1": 1.0, "MMBench/2": 0.0}


def test_two_files_of_lm_eval_in_one_are_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "samples_mine_2026-11-24T00-06-01.436358.jsonl"
    line = {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "Is it?"}}, "target": "yes", "filter": "none"}
    lines = [json.dumps({**line, "resps": [[text]], "filtered_resps": [text]}) for text in ("yes", "no")]
    path.write_text("\n".join(lines))
    done = run_import("lm-eval", path, "--run", tmp_path / "run")
    assert (done.exit_code, "doc_id 0 stands twice: is it two files in one?" in done.output) == (2, True), done.output
    assert not (tmp_path / "run").exists()


def test_a_file_of_lm_eval_is_not_read_as_one_of_lmms_eval(tmp_path: Path) -> None:
    path = tmp_path / "samples_mine_2026-11-24T00-06-01.436358.jsonl"
    line = {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "Is it?"}}, "target": "yes"}
    path.write_text(json.dumps({**line, "resps": [["yes"]], "filtered_resps": ["yes"], "filter": "none"}) + "\n")
    done = run_import("lmms-eval", path, "--run", tmp_path / "run")
    assert (done.exit_code, "give the file to orchestrator import lm-eval" in done.output) == (2, True), done.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("target", ["", None, "red", 7])
def test_a_target_of_lmms_eval_that_is_no_letter_names_its_line(tmp_path: Path, target: object) -> None:
    path = tmp_path / "20260131_120000_samples_vstar_bench.jsonl"
    prompt = "Which?\nA. red\nB. blue\n"
    lines = [
        {"doc_id": at, "target": one, "filtered_resps": ["A"], "input": prompt} for at, one in enumerate(["A", target])
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run_import("lmms-eval", path, "--run", tmp_path / "run")
    message = f"line 2: target {target!r} is not a letter from A to D: is it of vstar_bench?"
    assert (done.exit_code, message in done.output) == (2, True), done.output
    assert not (tmp_path / "run").exists()
