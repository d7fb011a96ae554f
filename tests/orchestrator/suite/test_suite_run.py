"""Suites against real servers: two models by endpoints, one that is dead, three tasks; killed and resumed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Cluster, Server, wait_for

from orchestrator.compare import leaderboard
from orchestrator.compare.leaderboard import Source

TASKS = ("toy", "toy_two", "colours")
FILE = """\
task: colours
data: rows.csv
id: id
question: "question"
options: [A, B, C, D]
answer: answer
answer_is: letter
"""


class Night:
    """A folder with a suite, and the servers that it names."""

    def __init__(self, folder: Path, scorer: Server) -> None:
        self.cluster = Cluster(folder)
        self.folder, self.scorer = folder, scorer
        self.good, self.empty = self.cluster.model("--concurrency", "2"), self.cluster.model("--empty", "2")
        (folder / "colours.yaml").write_text(FILE)
        rows = "".join(f"{n},row {n}: which?,red,green,blue,grey,{'ABCD'[n % 4]}\n" for n in range(12))
        (folder / "rows.csv").write_text("id,question,A,B,C,D,answer\n" + rows)

    def write(
        self, tasks: str = "toy toy_two colours.yaml", *, models: str = "", options: str = "", gate: str = ""
    ) -> None:
        """Writes night.yaml; `models` are good and empty if nothing else is given."""
        both = f'  good: {{endpoint: "{self.good.address}"}}\n  empty: {{endpoint: "{self.empty.address}"}}\n'
        lines = [
            f"  {task}: {{{'' if task.endswith('yaml') else 'synthetic: true, limit: 12'}}}" for task in tasks.split()
        ]
        text = f'options: {{scorer: "{self.scorer.address}", seed: 1{options}}}\n{gate}'
        (self.folder / "night.yaml").write_text(f"models:\n{models or both}tasks:\n" + "\n".join([*lines, text]))

    def run(self, *words: str, code: int = 0) -> str:
        return self.cluster.orchestrator("eval", "--suite", "night.yaml", *words, code=code)

    def board(self) -> dict[str, dict[str, Any]]:
        """What leaderboard.json has of each cell, by its run folder."""
        (table,) = json.loads((self.folder / "runs/night/leaderboard.json").read_text())["tables"]
        return {cell["run"]: cell for row in table["models"] for cell in row["tasks"].values()}

    def calls(self) -> int:
        return self.cluster.calls().total()


@pytest.fixture
def night(tmp_path: Path, shared_scorer: Server) -> Iterator[Night]:
    made = Night(tmp_path, shared_scorer)
    yield made
    made.cluster.close()


def test_two_models_by_three_tasks_to_one_leaderboard(night: Night) -> None:
    night.write(gate="gate: {baseline: good, conditions: ['change.low>=-2%', 'toy/acc>=0.1']}")
    output = night.run(code=4)
    assert "Error: the gate: FAIL" in output
    found = night.board()
    names = [f"{model}-{task}" for model in ("good", "empty") for task in TASKS]
    assert found.keys() == set(names)
    for name, cell in found.items():
        run = night.folder / "runs" / "night" / name
        (task,) = json.loads((run / "results.json").read_text())["tasks"].values()
        metric = task["metrics"][0]
        share = 100 if metric["unit"] == "percent" else 1
        assert (cell["state"], cell["n"]) == ("complete", 12)
        assert cell["value"] == metric["value"] / share
        assert cell["low"] == metric["interval"]["low"] / share
        assert (run / "report.html").is_file()
    for task in TASKS:
        good, empty = found[f"good-{task}"], found[f"empty-{task}"]
        assert (good["rank"], empty["rank"]) == (1, 2)
        assert "to_best" not in good
        assert empty["to_best"] == pytest.approx(empty["value"] - good["value"])
    page = (night.folder / "runs/night/leaderboard.html").read_text()
    assert "script-src &#39;none&#39;" in page
    assert all(f'href="{name}/report.html"' in page for name in found)
    mean = sum(found[f"good-{task}"]["value"] for task in TASKS) / 3
    assert f">{100 * mean:.1f}<" in page
    assert re.search(rf"good +.* {100 * mean:.1f}", output), "the terminal has the same mean"
    rows = list(csv.DictReader((night.folder / "runs/night/leaderboard.csv").open()))
    assert [float(row["value"]) for row in rows] == [found[name]["value"] for name in names]
    assert "| good |" in (night.folder / "runs/night/leaderboard.md").read_text()
    # Once more: every cell is complete, and nothing is asked, with the servers gone as well.
    calls, before = (
        night.calls(),
        [(night.folder / "runs/night" / name / "results.json").read_bytes() for name in found],
    )
    night.good.kill()
    assert night.run("--json", code=4).count("complete already") == 6
    assert night.calls() == calls
    assert before == [(night.folder / "runs/night" / name / "results.json").read_bytes() for name in found]


def test_a_dead_endpoint_does_not_stop_the_others(night: Night) -> None:
    models = f'  dead: {{endpoint: "127.0.0.1:1", patience: 1}}\n  good: {{endpoint: "{night.good.address}"}}\n'
    night.write("toy toy_two", models=models)
    output = night.run(code=3)
    assert "2 of 4 cells are not complete; run the same command again to resume" in output
    found = night.board()
    assert [found[f"dead-{task}"]["state"] for task in TASKS[:2]] == ["incomplete"] * 2
    assert "value" not in found["dead-toy"]
    assert "no model server answers at 127.0.0.1:1" in found["dead-toy"]["error"]
    assert found["dead-toy_two"]["error"].startswith("not tried: ")
    assert [found[f"good-{task}"]["state"] for task in TASKS[:2]] == ["complete"] * 2
    page = (night.folder / "runs/night/leaderboard.html").read_text()
    assert "2 of 4 cells are complete" in page
    assert "is model-server running there" in page
    # The address comes to life: the same command asks only what is left.
    before = night.calls()
    night.write("toy toy_two", models=models.replace("127.0.0.1:1", night.empty.address))
    night.run()
    assert night.calls() - before == 12 + 18, "of toy_two the second turn after an empty answer is not asked"
    assert {cell["state"] for cell in night.board().values()} == {"complete"}


def test_killed_in_the_middle_and_resumed(night: Night) -> None:
    night.write("toy toy_two")
    night.run("--run", "whole")
    asked = night.calls()
    night.write("toy toy_two", options=", max_requests_per_second: 8")
    process = night.cluster.start("eval", "--suite", "night.yaml")
    wait_for(lambda: night.cluster.answered("runs/night/good-toy_two") >= 4)
    process.kill()
    process.communicate()
    assert json.loads((night.folder / "runs/night/suite.json").read_text())["cells"][1]["exit_code"] is None
    night.write("toy toy_two")
    output = night.run()
    assert output.count("complete already") == 1
    # A call in flight when it was killed may be asked twice; no answer that was logged is.
    assert 2 * asked <= night.calls() <= 2 * asked + 4
    for name in night.board():
        for file in ("results.json", "verdicts.jsonl"):
            one, other = ((night.folder / run / name / file).read_bytes() for run in ("runs/night", "whole"))
            assert sorted(one.splitlines()) == sorted(other.splitlines()), (name, file)


def test_another_model_behind_an_address_is_not_put_beside_the_first(night: Night) -> None:
    night.write("toy", models=f'  good: {{endpoint: "{night.good.address}"}}\n')
    night.run()
    other = night.cluster.model("--weights", "2", port=0)
    night.good.kill()
    other.kill()
    other.port = night.good.port
    other.start()
    night.write("toy toy_two", models=f'  good: {{endpoint: "{night.good.address}"}}\n')
    output = night.run(code=2)
    assert "1 of 2 cells failed" in output
    found = night.board()
    assert (found["good-toy"]["state"], found["good-toy_two"]["state"]) == ("failed", "complete")
    assert (
        "its answers are of toy-model 1, and good is toy-model 2 now: remove the folder" in found["good-toy"]["error"]
    )
    assert "holds the run of another command" in night.run(code=2)


def test_one_server_serves_all_cells_of_a_checkpoint(night: Night) -> None:
    models = '  words: {model: "demo:hash"}\n  a: {model: "demo:constant:A"}\n'
    night.write("toy colours.yaml", models=models)
    night.run()
    replicas = {
        name: json.loads((night.folder / "runs/night" / name / "manifest.json").read_text())["replicas"]
        for name in night.board()
    }
    assert replicas["words-toy"] == replicas["words-colours"]
    assert replicas["a-toy"] == replicas["a-colours"] != replicas["words-toy"]


def test_a_folder_that_is_not_there_is_not_run(tmp_path: Path) -> None:
    sources = [Source("a", "", ["toy"], tmp_path / "a-toy"), Source("b", "", ["toy"], tmp_path / "b-toy", error="why")]
    (table,) = leaderboard.make("night", sources).tables
    assert [(entry.state, entry.metric) for row in table.rows for entry in row.entries] == [
        ("not run", None),
        ("incomplete", None),
    ]
    assert [row.mean for row in table.rows] == [None, None]
