"""`orchestrator import lmms-eval`: their samples, both readings, against a real scorer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lyncean_interop.lmms_eval_samples import read, task_of
from orchestrator.cli import main

PROMPT = "What is the color of the {}?\nA. red\nB. blue\nC. green\nD. tan\n{}\n{}"
INSTRUCTION = "Answer with the option's letter from the given choices directly."


def vstar(number: int, answer: str, target: str, score: float, category: str = "direct_attributes") -> dict:
    metric = {"question_id": number, "category": category, "score": score, "prediction": "?", "ground_truth": target}
    return {
        "doc_id": number,
        "target": target,
        "filtered_resps": [answer],
        "doc_hash": "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
        f"vstar_{category}_acc": metric,
        "vstar_overall_acc": metric,
        "input": PROMPT.format(f"thing {number}", INSTRUCTION, INSTRUCTION),
    }


def write(path: Path, lines: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run_import(*args: object):
    return CliRunner().invoke(main, ["import", "lmms-eval", *map(str, args)])


def accuracy(run: Path, task: str) -> float:
    metrics = json.loads((run / "results.json").read_text())["tasks"][task]["metrics"]
    return next(f["value"] for f in metrics if f["name"] == "accuracy" and not f["labels"])


def test_both_readings_of_vstar(tmp_path):
    """Their result is reproduced, and "Answer: D" is no longer read as A."""
    lines = [
        vstar(0, "A", "A", 1.0),
        vstar(1, "Answer: D", "D", 0.0),
        vstar(2, "Answer: B", "A", 1.0),
        vstar(3, "C. green", "C", 1.0, "relative_position"),
        vstar(4, "I cannot tell", "B", 0.0),
    ]
    path = write(tmp_path / "some__model" / "20260131_120000_samples_vstar_bench.jsonl", lines)
    run = tmp_path / "run"
    result = run_import(path, "--run", run)
    assert result.exit_code == 0, result.output
    assert accuracy(run, "vstar_bench") == 60
    assert accuracy(run / "parity", "vstar_bench") == 60
    assert "theirs   accuracy 60.00" in result.output
    assert "of 5 samples are scored differently" in result.output
    assert "vstar_bench/1  right D  careful D  parity A  'Answer: D'" in result.output
    assert "vstar_bench/2  right A  careful B  parity A  'Answer: B'" in result.output
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["identity"]["model"]["model_name"] == "some__model"
    assert (run / "report.html").exists()
    scored = CliRunner().invoke(main, ["score", str(run), "--parity"])
    assert scored.exit_code == 0, scored.output
    assert "vstar_bench/2  right A  careful B  parity A" in scored.output
    again = run_import(path, "--run", run)
    assert again.exit_code == 2
    assert "holds a run already" in again.output


def test_failed_requests_are_not_answers(tmp_path):
    lines = [
        vstar(0, "[LMMS_EVAL_REQUEST_FAILED after 5 attempts] rate limit for a model", "A", 1.0),
        vstar(1, "B", "B", 1.0),
    ]
    path = write(tmp_path / "x_samples_vstar_bench_direct_attributes.jsonl", lines)
    result = run_import(path, "--run", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert accuracy(tmp_path / "run", "vstar_bench_direct_attributes") == 50
    assert "1 failed, 1 scored" in result.output


def test_visualpuzzles_draws_are_seeded_and_marked(tmp_path):
    prompt = "Question: Next?\nOptions:\n(A) one\n(B) two\n(C) three\n(D) four\nSolve the multiple-choice question"
    lines = [
        {"doc_id": i, "target": "B", "filtered_resps": [text], "input": prompt, "exact_match": 0.0}
        for i, text in enumerate(["**Answer:** B", "Answer: B", "no idea at all"])
    ]
    path = write(tmp_path / "d_samples_VisualPuzzles_cot.jsonl", lines)
    result = run_import(path, "--run", tmp_path / "run")
    assert result.exit_code == 0, result.output
    verdicts = {v["key"]: v for v in map(json.loads, (tmp_path / "run/parity/verdicts.jsonl").open())}
    assert verdicts["VisualPuzzles_cot/1"]["extracted"] == "B"
    assert verdicts["VisualPuzzles_cot/2"]["reason"] == "random_draw"
    careful = {v["key"]: v for v in map(json.loads, (tmp_path / "run/verdicts.jsonl").open())}
    assert [careful[f"VisualPuzzles_cot/{i}"]["outcome"] for i in range(3)] == ["scored", "scored", "unparsed"]


def test_the_category_family_never_draws(tmp_path):
    line = {"doc_id": 0, "target": "B", "filtered_resps": ["no idea at all"], "input": "Question: Next?", "accuracy": 0}
    path = write(tmp_path / "d_samples_unig2u_VisualPuzzles_spatial.jsonl", [line])
    result = run_import(path, "--run", tmp_path / "run", "--reading", "parity")
    assert result.exit_code == 0, result.output
    (verdict,) = map(json.loads, (tmp_path / "run/parity/verdicts.jsonl").open())
    assert (verdict["outcome"], verdict["labels"]) == ("unparsed", {"category": "spatial"})
    assert (tmp_path / "run/verdicts.jsonl").read_text() == ""


def test_options_and_categories_from_the_data(tmp_path):
    row = {
        "text": f"Which?\n(A) red (dark)\n(B) blue\n(C) green\n(D) tan\n{INSTRUCTION}",
        "label": "A",
        "category": "direct_attributes",
        "question_id": 77,
        "image": "",
    }
    (tmp_path / "data.jsonl").write_text(json.dumps(row))
    line = {"doc_id": 0, "target": "A", "filtered_resps": ["It is red (dark)."], "input": "?"}
    path = write(tmp_path / "d_samples_vstar_bench.jsonl", [line])
    result = run_import(path, "--run", tmp_path / "run", "--data", tmp_path / "data.jsonl", "--reading", "careful")
    assert result.exit_code == 0, result.output
    (verdict,) = map(json.loads, (tmp_path / "run/verdicts.jsonl").open())
    assert (verdict["extracted"], verdict["labels"]) == ("A", {"category": "direct_attributes"})
    assert verdict["key"] == "vstar_bench/77", "the name that a run of ours gives it: they are compared by it"


@pytest.mark.parametrize(
    ("number", "target", "message"), [(0, "B", "that row's is A"), (1, "A", "there is no such row")]
)
def test_data_of_other_questions_is_refused(tmp_path, number, target, message):
    """Read with the options of another row, answers would be scored against what was never shown."""
    text = f"Which?\n(A) red\n(B) blue\n{INSTRUCTION}"
    row = {"text": text, "label": "A", "category": "relative_position", "question_id": 1, "image": ""}
    (tmp_path / "data.jsonl").write_text(json.dumps(row))
    line = {"doc_id": number, "target": target, "filtered_resps": ["blue"], "input": "?"}
    path = write(tmp_path / "d_samples_vstar_bench.jsonl", [line])
    result = run_import(path, "--run", tmp_path / "run", "--data", tmp_path / "data.jsonl")
    assert result.exit_code == 2
    assert f"doc_id {number} is {target}, {message}" in " ".join(result.output.split())
    assert not (tmp_path / "run").exists()


def test_options_are_read_off_the_prompt(tmp_path):
    path = write(tmp_path / "d_samples_vstar_bench.jsonl", [vstar(0, "A", "A", 1)])
    (taken,) = read(path, "vstar_bench")
    assert taken.options == ("red", "blue", "green", "tan")
    puzzle = "Question: (A) is a letter\nOptions:\n(A) 1 (one)\n(B) 2\n(C) 3\n(D) 4\nSolve"
    path = write(tmp_path / "p.jsonl", [{"doc_id": 3, "target": "b", "filtered_resps": [["x"]], "arguments": [puzzle]}])
    (taken,) = read(path, "VisualPuzzles_direct")
    assert (taken.key, taken.targets, taken.options) == ("3", ("B",), ("1 (one)", "2", "3", "4"))
    puzzle = (
        "Question: Of these\n(A) a dog\n(B) a cat\nwhich swims?\nOptions:\n(A) both\n(B) neither\n(C) 1\n(D) 2\nSolve"
    )
    path = write(tmp_path / "q.jsonl", [{"doc_id": 4, "target": "A", "filtered_resps": ["x"], "arguments": [puzzle]}])
    (taken,) = read(path, "VisualPuzzles_direct")
    assert taken.options == ("both", "neither", "1", "2")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("results.json", "{}", "does not say its task"),
        ("d_samples_mme.jsonl", "{}", "is it a samples file of lmms-eval (--log_samples)?"),
        ("d_samples_VisualPuzzles_foo.jsonl", "{}", "is of VisualPuzzles_foo, which is none of our tasks: give --task"),
        ("d_samples_vstar_bench.jsonl", "", "holds no samples"),
        ("d_samples_vstar_bench.jsonl", "{", "line 1, is not JSON"),
        ("d_samples_vstar_bench.jsonl", '{"doc_id": 1}', "has no target, filtered_resps"),
        ("d_samples_vstar_bench.jsonl", '{"doc_id":1,"target":"A","filtered_resps":["A"]}\n' * 2, "stands twice"),
        ("d_samples_vstar_bench.jsonl", None, "does not exist"),
    ],
)
def test_mistakes_are_one_line(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    result = run_import(tmp_path / name, "--run", tmp_path / "run")
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "run").exists()


def test_task_names():
    assert task_of(Path("a_samples_unig2u_VisualPuzzles_spatial_visual_cot.jsonl"), None) == (
        "VisualPuzzles_spatial_visual_cot"
    )
    assert task_of(Path("x.jsonl"), "vstar_bench") == "vstar_bench"
