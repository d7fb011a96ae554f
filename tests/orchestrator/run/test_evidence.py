"""Evidence and facts of a run: what a judge is shown, live and from the log, and how position bias is measured."""

from __future__ import annotations

import hashlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers import commands
from helpers.engine_cluster import HERE, Server
from helpers.judge_server import JudgeServer, Vendor
from PIL import Image

from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.engine.evidence import MAX_BYTES, put_evidence
from orchestrator.engine.scoring import ScorerClient
from orchestrator.run_folder.log import RunLog

COLUMNS = "data: rows.jsonl\nid: id\nimage: image\nquestion: question\nanswer: answer\n"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Server(tmp_path_factory.mktemp("looking"), [sys.executable, str(HERE / "looking_server.py")]).start()
    yield server.address
    server.kill()


def write_task(folder: Path, rows: int, more: str, options: bool = True) -> Path:
    lines = []
    for number in range(rows):
        buffer = io.BytesIO()
        Image.new("RGB", (48, 32), (number, 99, 9)).save(buffer, "PNG")
        (folder / f"{number}.png").write_bytes(buffer.getvalue())
        row: dict[str, Any] = {
            "id": number,
            "image": f"{number}.png",
            "question": f"Which of row {number}?",
            "answer": "A",
        }
        row |= {"A": "right", "B": "wrong", "C": "false", "D": "bad"} if options else {}
        lines.append(orjson.dumps(row))
    (folder / "rows.jsonl").write_bytes(b"\n".join(lines))
    (folder / "looks.yaml").write_text(COLUMNS + ("options: [A, B, C, D]\n" if options else "") + more)
    return folder / "looks.yaml"


def evaluate(task: Path, endpoint: str, run: str, *more: str, code: int = 0) -> dict[str, Any]:
    arguments = ["eval", "--task", str(task), "--endpoint", endpoint, "--tools", "zoom", "--protocol", "deepeyes"]
    commands.orchestrator(*arguments, "--run", str(task.parent / run), *more, code=code)
    results: dict[str, Any] = orjson.loads((task.parent / run / "results.json").read_bytes())
    return results


def by_name(results: dict[str, Any], name: str) -> dict[str, Any]:
    metrics = next(iter(results["tasks"].values()))["metrics"]
    return next(metric for metric in metrics if metric["name"] == name and not metric.get("labels"))


def test_a_judge_of_steps_sees_the_trajectory_live_and_from_the_log(tmp_path: Path, endpoint: str) -> None:
    vendor = Vendor(lambda _: {"explanation": "", "step_1": "right", "step_2": "wrong"})
    task = write_task(tmp_path, 3, "rule: judge_steps\nmetrics: [mean]\n", options=False)
    with JudgeServer(vendor) as url:
        judge = ["--judge", f"openai:x@{url}"]
        caches = [["--judge-cache", str(tmp_path / f"{name}.sqlite")] for name in ("live", "stored")]
        live = evaluate(task, endpoint, "run", *judge, *caches[0])
        prompts = [body["messages"][-1]["content"] for body in vendor.requests]
        vendor.requests.clear()
        commands.orchestrator("score", str(tmp_path / "run"), *judge, *caches[1])
    again = [body["messages"][-1]["content"] for body in vendor.requests]
    assert by_name(live, "mean")["value"] == 0.5
    assert live == orjson.loads((tmp_path / "run" / "results.json").read_bytes())
    assert sorted(map(orjson.dumps, prompts)) == sorted(map(orjson.dumps, again))
    text, *images = prompts[0]
    assert [part["type"] for part in images] == ["image_url", "image_url"]
    assert "Which of row" in text["text"]
    assert text["text"].startswith("Question:\n[image 1]\nWhich of row")
    assert re.search(r"Step 1:\n<answer-\w+>\n<think>I look closer.</think><tool_call>", text["text"])
    assert "[result]\n<tool_response>\n[image 2]\n" in text["text"]
    assert re.search(r"Step 2:\n<answer-\w+>\n<think>I see.</think>", text["text"])


def test_predictions_of_others_have_no_evidence(tmp_path: Path, endpoint: str) -> None:
    task = write_task(tmp_path, 1, "rule: judge_steps\nmetrics: [mean]\n", options=False)
    vendor = Vendor(lambda _: {"explanation": "", "step_1": "right", "step_2": "wrong"})
    with JudgeServer(vendor) as url:
        judge = ["--judge", f"openai:x@{url}", "--judge-cache", str(tmp_path / "cache.sqlite")]
        evaluate(task, endpoint, "run", *judge)
    log = RunLog(tmp_path / "run")
    try:
        line = log.responses.read(log.entry("looks/0").offset)
        needs = frozenset({"messages", "usage", "steps"})
        whole = put_evidence(scorer.ScoreRequest(), line, log, needs).evidence
        assert (len(whole.messages), len(whole.steps), whole.reasoning) == (2, 2, "")
        assert whole.messages[1].parts[0].image.sha256 == hashlib.sha256((tmp_path / "0.png").read_bytes()).digest()
        assert not whole.messages[1].parts[0].image.data
        assert whole.usage.output_tokens == sum(step.usage.output_tokens for step in whole.steps) > 0
        assert [len(step.next) for step in whole.steps] == [2, 0]
        assert not put_evidence(scorer.ScoreRequest(), line | {"request": None}, log, needs).HasField("evidence")
        assert not put_evidence(scorer.ScoreRequest(), line, log, frozenset()).HasField("evidence")
        line["request"]["messages"][0]["parts"][0]["text"] = "x" * MAX_BYTES
        assert not put_evidence(scorer.ScoreRequest(), line, log, needs).HasField("evidence")
    finally:
        log.close()


def test_other_rules_get_the_same_bytes_as_without_evidence(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[scorer.ScoreRequest] = []
    put = ScorerClient.put
    monkeypatch.setattr(
        ScorerClient, "put", lambda self, request, scoring: (sent.append(request), put(self, request, scoring))
    )
    results = evaluate(write_task(tmp_path, 3, ""), endpoint, "run")
    assert len(sent) == 3
    assert not any(request.HasField("evidence") for request in sent)
    facts = {"calls": 2, "tool_calls": 1, "tool_errors": 0}
    assert all(facts.items() <= dict(request.facts).items() for request in sent)
    assert by_name(results, "calls")["value"] == 2
    sliced = [metric for metric in results["tasks"]["looks"]["metrics"] if metric.get("labels")]
    assert [(metric["name"], metric["labels"]) for metric in sliced] == [("accuracy", {"calls": "2"})]


def test_the_right_choice_always_at_a_is_said_and_shuffled_options_measure_it(tmp_path: Path, endpoint: str) -> None:
    task = write_task(tmp_path, 60, "")
    planted = evaluate(task, endpoint, "planted")
    assert by_name(planted, "accuracy")["value"] == 100
    (doubt,) = planted["tasks"]["looks"]["doubts"]
    assert doubt["cause"] == "one_key"
    assert "--shuffle-options measures it" in doubt["words"]
    shuffled = evaluate(task, endpoint, "shuffled", "--shuffle-options")
    assert shuffled["tasks"]["looks"]["doubts"] == []
    assert by_name(shuffled, "accuracy")["value"] < 75
    bias = by_name(shuffled, "choice bias")
    assert bias["details"]["majority"] == "A"
    assert bias["value"] > 0.2
    assert bias["details"]["p_value"] < 0.01
    assert bias["details"]["accuracy_by_key"]["A"] == 1.0 > bias["details"]["accuracy_elsewhere"]
    compared = commands.orchestrator("compare", str(tmp_path / "planted"), str(tmp_path / "shuffled"))
    assert re.search(r"accuracy\s+-\d\d", compared)
    assert "looks: calls 2 → 2, +0 over 60 items" in compared
