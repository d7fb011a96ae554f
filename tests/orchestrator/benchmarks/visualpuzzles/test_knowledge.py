"""Knowledge questions: sent without an image, graded by a judge, right as an item where all are."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from helpers.engine_cluster import HERE, Cluster, Server
from helpers.judge_server import JudgeServer, Vendor

from orchestrator.benchmarks.visualpuzzles.knowledge import BENCHMARK, KnowledgeSettings
from orchestrator.data.rows import DataError
from orchestrator.samples import Sample, Variant

VARIANT = Variant("VisualPuzzles_knowledge", settings=KnowledgeSettings())


def write(folder: Path, *items: list[tuple[str, str]]) -> Path:
    rows = [
        {"id": 7 + at, "questions": [{"question": question, "answer": answer} for question, answer in pairs]}
        for at, pairs in enumerate(items)
    ]
    (folder / "puzzle_questions.json").write_text(json.dumps(rows))
    return folder / "puzzle_questions.json"


def samples_of(data: str | None) -> list[Sample]:
    rows = BENCHMARK.rows("VisualPuzzles_knowledge", data)
    return [sample for row in rows for sample in BENCHMARK.samples(row, VARIANT)]


def test_each_question_is_asked_alone(tmp_path: Path) -> None:
    file = write(tmp_path, [("What is a net?", "an unfolded solid"), ("What is a cube?", "six squares")], [])
    samples = samples_of(str(file))
    assert [sample.key for sample in samples] == ["VisualPuzzles_knowledge/7:1", "VisualPuzzles_knowledge/7:2"]
    (message,) = samples[1].turns[0].ask([]).messages
    assert [part.text for part in message.parts] == ["What is a cube?"]
    scoring = samples[1].turns[0].scoring
    assert (scoring.rule, scoring.targets, scoring.group) == ("judge_answer", ("six squares",), "7")
    assert BENCHMARK.needs(VARIANT) == ()


def test_an_item_is_known_where_all_its_questions_are(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real model that says one thing to all, a real scorer, and a judge that compares words."""
    monkeypatch.setenv("ANSWER", "red")
    model = Server(cluster.folder / "model", [sys.executable, str(HERE / "answering_server.py")]).start()
    file = write(cluster.folder, [("Colour?", "red"), ("Hue?", "red")], [("Colour?", "red"), ("Hue?", "blue")])
    cluster.servers.append(model)
    with JudgeServer(Vendor(lambda prompt: {"explanation": "", "correct": "- red" in prompt})) as url:
        monkeypatch.setenv("LYNCEAN_JUDGE_KEY", "k3y")
        command = [sys.executable, "-m", "scorer", "serve", "--judge", f"openai:words@{url}"]
        scorer = Server(cluster.folder / "judged", command).start()
        cluster.servers.append(scorer)
        cluster.eval("run", [model], scorer, "--task", "VisualPuzzles_knowledge", "--data", str(file))
    metrics = json.loads(cluster.results("run"))["tasks"]["VisualPuzzles_knowledge"]["metrics"]
    assert {one["name"]: one["value"] for one in metrics} == {"Items known": 0.5, "Questions known": 0.75}


@pytest.mark.parametrize(
    ("data", "message"),
    [(None, "has no data on the hub"), ([{"id": 1, "questions": ["What?"]}], "question 1 is not a pair")],
)
def test_mistakes_are_named(tmp_path: Path, data: object, message: str) -> None:
    file = tmp_path / "puzzle_questions.json"
    file.write_text(json.dumps(data))
    with pytest.raises(DataError, match=re.escape(message)):
        samples_of(str(file) if data else None)
