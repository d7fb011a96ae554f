"""Reasoning by a judge: marked steps by kind, and how an answer was found, reasoning beside the answer included."""

from __future__ import annotations

import json
import sys

import pytest
from helpers.engine_cluster import HERE, Cluster, Server
from helpers.judge_server import JudgeServer, Vendor

from orchestrator.benchmarks.base import LetterSettings
from orchestrator.benchmarks.visualpuzzles.reasoning import BENCHMARK
from orchestrator.samples import Variant

ANSWER = "STEP START step <1>\nI see a cube.\nSTEP START step <2>\nSo it has six sides.\nAnswer: (A)"


def grade(prompt: str) -> dict[str, object]:
    if "Criteria:" in prompt:
        met = ("So it has" in prompt, False, False, True)
        return {"explanation": ""} | {f"criterion_{number}": one for number, one in enumerate(met, 1)}
    return {"explanation": "", "step_1": "visual", "step_2": "logical"}


def test_each_task_is_judged_by_its_rule(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real model that says one thing to all, a real scorer, and a judge over HTTP."""
    monkeypatch.setenv("ANSWER", ANSWER)
    model = Server(cluster.folder / "model", [sys.executable, str(HERE / "answering_server.py")]).start()
    cluster.servers.append(model)
    vendor = Vendor(grade)
    with JudgeServer(vendor) as url:
        monkeypatch.setenv("LYNCEAN_JUDGE_KEY", "k3y")
        command = [sys.executable, "-m", "scorer", "serve", "--judge", f"openai:words@{url}"]
        scorer = Server(cluster.folder / "judged", command).start()
        cluster.servers.append(scorer)
        models = cluster.folder / "models.yaml"
        options = {"synthetic": True, "limit": 2, "scorer": scorer.address}
        models.write_text(json.dumps({"models": {"GPT-4o": {"endpoint": model.address}}, "options": options}))
        tables = [word for name in ("4", "5", "figure-5") for word in ("--table", name)]
        arguments = ["visualpuzzles", *tables, "--models", str(models), "--run", str(cluster.folder / "made"), "--json"]
        output = cluster.orchestrator("reproduce", *arguments)
    tables_made, _ = json.JSONDecoder().raw_decode(output[output.index("[\n  {") :])
    cells = {table["table"]: {cell["column"]: cell for cell in table["ours"]["GPT-4o"]} for table in tables_made}
    steps = cells["4"]["VisualPuzzles (200 items)"]
    assert (steps["value"], steps["printed"], steps["verdict"]) == (50.0, 87.0, "not compared")
    firsts = {name: cell["value"] for name, cell in cells["5"].items() if cell["value"] is not None}
    assert {value for name, value in firsts.items() if name.startswith("answer first")} == {100.0}
    assert {value for name, value in firsts.items() if name.startswith("option first")} == {0.0}
    assert (cells["figure-5"]["branching, VisualPuzzles"]["value"]) == 0.0
    assert (cells["figure-5"]["revalidation, VisualPuzzles"]["value"]) == 100.0
    shown = [body["messages"][-1]["content"][0]["text"] for body in vendor.requests]
    assert sum("First Order Logic" in text for text in shown) == 2
    assert sum("Think step by step" in text for text in shown) == 2


def test_the_words_of_the_question_are_those_of_the_paper() -> None:
    row = next(BENCHMARK.synthetic("VisualPuzzles_steps", 0))
    (sample,) = BENCHMARK.samples(row, Variant("VisualPuzzles_steps", settings=LetterSettings()))
    (message,) = sample.turns[0].ask([]).messages
    assert message.parts[-1].text.endswith(
        "do not skip steps. In your response, begin each step with STEP START step < step num >"
    )
