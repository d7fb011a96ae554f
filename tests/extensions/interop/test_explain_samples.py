"""orchestrator explain RUN SAMPLES: what was planted in a run of another harness is told apart by its samples file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import HERE, Server
from helpers.planted import evaluate, explain, planted
from helpers.report_runs import Writer

from orchestrator.run_folder import open_run

CAUSES = {"small": "image", "suffix": "prompt", "limit": "limit", "rule": "reading"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def one(*flags: str) -> Server:
        command = [sys.executable, str(HERE / "explain_server.py"), *flags]
        started.append(Server(tmp_path / f"server{len(started)}", command).start())
        return started[-1]

    yield one
    for server in started:
        server.kill()


def samples(run: Path, task: str, folder: Path) -> Path:
    """Writes a task of a run as lmms-eval would have written it."""
    (folder / "changeable").mkdir(parents=True, exist_ok=True)
    path = folder / "changeable" / f"20261126_120000_samples_{task}.jsonl"
    lines, config = [], {}
    for item in open_run(run):
        if item.task != task:
            continue
        config = item.response["request"].get("config", {})
        prompt = "\n".join(
            part["text"]
            for message in item.response["request"]["messages"]
            for part in message["parts"]
            if "text" in part
        )
        tokens = config.get("max_output_tokens", 9) if item.cut else 1
        lines.append({
            "doc_id": int(item.key.partition("/")[2]), "target": item.scoring["targets"][0], "input": prompt,
            "filtered_resps": [item.answer_text], "exact_match": item.score_all,
            "token_counts": [{"output_tokens": tokens}],
        })  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    limit = {"max_new_tokens": config["max_output_tokens"]} if "max_output_tokens" in config else {}
    settings = {"configs": {task: {"generation_kwargs": {**limit, "do_sample": False}}}}
    path.with_name("20261126_120000_results.json").write_text(json.dumps(settings))
    return path


def tried(*args: object) -> dict[str, Any]:
    result = explain(*args, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    explanation: dict[str, Any] = json.loads(result.stdout)
    return explanation


def test_planted_causes_are_told_apart(tmp_path: Path, start: Callable[..., Server], shared_scorer: Server) -> None:
    folder, model = planted(tmp_path / "planted"), start()
    first, second = (
        evaluate(folder, side, f"run-{side}", model, shared_scorer, *CAUSES, "same") for side in ("first", "second")
    )
    live = ["--endpoint", model.address, "--scorer", shared_scorer.address, "--limit", "500"]
    right = wrong = 0
    for task, cause in CAUSES.items():
        path = samples(second, task, tmp_path)
        (entry,) = tried(first, path, "--task", task)["tasks"]
        known = {row["cause"]: row["items"] for row in entry["causes"]}
        if cause == "image":  # which no file of samples holds: what is left where a live server repeats its answer
            assert known.keys() == {"not recorded"}, known
            items = tried(first, path, "--task", task, *live)["experiment"]["items"]
            known = {name: [item["found"] for item in items].count(name) for name in {item["found"] for item in items}}
        assert cause in known, (task, known, items[:1] if cause == "image" else "")
        right += known.pop(cause)
        wrong += sum(known.values())
    assert right > 60
    assert right >= 0.95 * (right + wrong)
    noisy = evaluate(folder, "first", "run-noise", start("--noise", "1"), shared_scorer, "same")
    path = samples(noisy, "same", tmp_path)
    options = ["--endpoint", start("--noise", "1").address, "--scorer", shared_scorer.address]
    items = tried(first, path, "--task", "same", *options)["experiment"]["items"]
    assert {item["found"] for item in items} == {"noise"}
    assert len(items) > 5


def test_a_task_s_own_metrics_stand_beside_the_tool_s_scores(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ours", tasks=["lmms:mme"])
    for number, answer in enumerate(["yes", "no", "yes"]):
        parts = [{"text": "Is it red?"}]
        writer.item(f"lmms:mme/{number}", task="lmms:mme", parts=parts, answer=answer, targets=["yes"],
                    rule="harness_task", score=float(answer == "yes"))  # fmt: skip
    metric = {"name": "mme_score", "metric": "harness_task", "labels": {}, "value": 66.0, "value_answered": 66.0,
              "unit": "", "denominator": "3", "denominator_answered": "3", "counts": {}, "details": {}}  # fmt: skip
    run = writer.close({"lmms:mme": [metric]})
    path = tmp_path / "llava-tiny" / "20261126_120000_samples_mme.jsonl"
    path.parent.mkdir()
    lines = [
        {"doc_id": at, "target": "yes", "input": prompt, "filtered_resps": [answer], "exact_match": score}
        for at, (prompt, answer, score) in enumerate(
            [("Is it red?", "yes", 0.0), ("Is it red? Say so.", "no", 0.0), ("Is it red? Say so.", "no", 0.0)]
        )
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (task,) = tried(run, path)["tasks"]
    assert task["task"] == "lmms:mme → mme"
    assert {cause["cause"]: cause["items"] for cause in task["causes"]} == {"reading": 1, "prompt": 1}
    other = explain(run, Path(__file__), "--json")
    assert other.exit_code == 2
    assert "is neither a run folder nor a log of" in other.output


def test_an_answer_after_a_drawing_is_that_of_the_document_in_a_log(tmp_path: Path) -> None:
    path = tmp_path / "bagel" / "20261126_120000_samples_drawn.jsonl"
    path.parent.mkdir()
    prompt = "[GEN_PROMPT]Draw it.[/GEN_PROMPT][QUESTION]Which? [/QUESTION]"
    line = {"target": "A", "input": prompt}
    answers = [("A", 0.0), ("B", 0.0)]
    lines = [{"doc_id": at, "filtered_resps": [one], "acc": score, **line} for at, (one, score) in enumerate(answers)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for turn, causes in (("answer", [{"reading": 1, "not recorded": 1}]), ("round1", [])):
        writer = Writer(tmp_path / turn, tasks=["lmms:drawn"])
        for at in range(2):
            writer.item(f"lmms:drawn/{at}:{turn}", sample=f"lmms:drawn/{at}", task="lmms:drawn", answer="A",
                        parts=[{"text": "Which?"}], targets=["A"], rule="harness_task", score=1.0)  # fmt: skip
        explanation = tried(writer.close(), path)
        assert [{cause["cause"]: cause["items"] for cause in task["causes"]} for task in explanation["tasks"]] == causes
    assert "lmms:drawn → drawn is left out: the two have no item in common" in explanation["notes"]


def table(tmp_path: Path) -> tuple[Path, list[list[str]]]:
    """A run of ours, and the rows of a table that VLMEvalKit scored."""
    writer = Writer(tmp_path / "ours", tasks=["vlmevalkit:MMBench_DEV_EN"])
    for number, answer in enumerate("ABB"):
        writer.item(f"vlmevalkit:MMBench_DEV_EN/{number}", task="vlmevalkit:MMBench_DEV_EN", rule="choice",
                    parts=[{"text": "Which?"}], answer=answer, targets=["A"], options=["red", "blue"],
                    score=float(answer == "A"))  # fmt: skip
    rows = [["index", "question", "A", "B", "answer", "prediction", "hit"]]
    rows += [
        [str(at), "Which?", "red", "blue", "A", prediction, hit]
        for at, (prediction, hit) in enumerate(("A0", "B1", "A1"))
    ]
    (tmp_path / "llava_v1.5_7b").mkdir()
    return writer.close(), rows


def test_tables_of_vlmevalkit_are_logs_and_pickles_are_not(tmp_path: Path) -> None:
    run, rows = table(tmp_path)
    path = tmp_path / "llava_v1.5_7b" / "llava_v1.5_7b_MMBench_DEV_EN_exact_matching_result.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    (task,) = tried(run, path)["tasks"]
    assert task["task"] == "vlmevalkit:MMBench_DEV_EN → MMBench_DEV_EN"
    assert {cause["cause"]: cause["items"] for cause in task["causes"]} == {"reading": 2, "not recorded": 1}
    path.write_text("".join("\t".join(row[:-1]) + "\n" for row in rows))
    assert "has no scores, which `orchestrator import` makes" in " ".join(tried(run, path)["notes"])
    (pickled := path.with_suffix(".pkl")).write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    refused = explain(run, pickled)
    assert refused.exit_code == 2
    assert "is a pickle, which can run any code when it is loaded" in refused.output
    (broken := path.with_suffix(".xlsx")).write_bytes(b"PK\3\4 broken")
    assert "is neither a run folder nor a log of" in explain(run, broken).output


def test_workbooks_of_vlmevalkit_are_logs(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed: pip install 'lyncean[xlsx]'")
    run, rows = table(tmp_path)
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path := tmp_path / "llava_v1.5_7b" / "llava_v1.5_7b_MMBench_DEV_EN.xlsx")
    (task,) = tried(run, path)["tasks"]
    assert {cause["cause"]: cause["items"] for cause in task["causes"]} == {"reading": 2, "not recorded": 1}
