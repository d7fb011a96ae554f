"""Suites against real servers: two models by endpoints, one that is dead, three tasks; killed and resumed."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.engine_cluster import Cluster, Server, wait_for
from helpers.same_results import results_of

from orchestrator.compare import leaderboard, statistics
from orchestrator.compare.items import Units
from orchestrator.compare.leaderboard import Source
from orchestrator.compare.scores import Step

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

    def run(self, *options: str, code: int = 0) -> str:
        return self.cluster.orchestrator("eval", "--suite", "night.yaml", *options, code=code)

    def board(self) -> dict[str, dict[str, Any]]:
        """Entries of leaderboard.json by run folder."""
        (table,) = json.loads((self.folder / "runs/night/leaderboard.json").read_text())["tables"]
        return {cell["run"]: cell for row in table["models"] for cell in row["tasks"].values()}

    def results(self, names: list[str]) -> list[bytes]:
        return [results_of(self.folder / "runs/night" / name) for name in names]

    def calls(self) -> int:
        return self.cluster.calls().total()


@pytest.fixture
def night(tmp_path: Path, shared_scorer: Server) -> Iterator[Night]:
    instance = Night(tmp_path, shared_scorer)
    yield instance
    instance.cluster.close()


GATE = "gate: {baseline: good, conditions: ['change.low>=-2%', 'toy/acc>=0.1']}"


def test_from_a_dead_endpoint_to_one_leaderboard(night: Night) -> None:
    """Two models by three tasks, and a third whose server comes up late; then nothing is asked twice."""
    models = f'  good: {{endpoint: "{night.good.address}"}}\n  late: {{endpoint: "127.0.0.1:1", patience: 1}}\n'
    models += f'  empty: {{endpoint: "{night.empty.address}"}}\n'
    night.write(models=models, gate=GATE)
    output = night.run(code=3)
    assert "3 of 9 cells are not complete; run the same command again to resume" in output
    assert "gate  late is not complete: it is not judged" in output
    board = night.board()
    names = [f"{model}-{task}" for model in ("good", "late", "empty") for task in TASKS]
    assert board.keys() == set(names)
    assert {name: board[name]["state"] for name in names} == {
        name: "incomplete" if name.startswith("late") else "complete" for name in names
    }
    assert "value" not in board["late-toy"]
    assert "no model server answers at 127.0.0.1:1" in board["late-toy"]["error"]
    assert board["late-toy_two"]["error"].startswith("not tried: ")
    page = html.unescape((night.folder / "runs/night/leaderboard.html").read_text())
    assert "6 of 9 cells are complete" in page
    assert "is model-server running there" in page
    # The address comes to life: the same command asks only what is left.
    before = night.calls()
    night.write(models=models.replace("127.0.0.1:1", night.empty.address), gate=GATE)
    output = night.run(code=4)
    assert "Error: the gate: FAIL" in output
    assert night.calls() - before == 12 + 18 + 12, "of toy_two the second turn after an empty answer is not asked"
    _check_leaderboard(night, names, output)
    # Once more: every cell is complete, and nothing is asked, with a server gone as well.
    calls, results = night.calls(), night.results(names)
    night.good.kill()
    assert night.run("--json", code=4).count("complete already") == 9
    assert (night.calls(), night.results(names)) == (calls, results)
    # Limits are held against complete cells, and a damaged one does not hide the others.
    night.write(models=models.replace("127.0.0.1:1", night.empty.address), options=", max_unparsed: 0.2")
    damaged = night.folder / "runs/night/good-toy/results.json"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    output = night.run(code=2)
    assert "Traceback" not in output
    assert "good-toy: failed: " in output
    assert "empty-toy: 6 of 12 items are unparsed, --max-unparsed allows 20.0%" in output
    board = night.board()
    assert (board["good-toy"]["state"], board["good-colours"]["state"]) == ("failed", "complete")
    assert board["empty-toy"]["value"] is not None, "its numbers stand: every item has an outcome"
    assert "empty-toy: 6 of 12 items are unparsed" in (night.folder / "runs/night/leaderboard.html").read_text()
    assert night.calls() == calls


def _check_leaderboard(night: Night, names: list[str], output: str) -> None:
    """Makes sure that page, JSON, CSV, Markdown and terminal have the runs' own numbers."""
    board = night.board()
    for name, cell in board.items():
        run = night.folder / "runs" / "night" / name
        (task,) = json.loads((run / "results.json").read_text())["tasks"].values()
        metric = task["metrics"][0]
        share = 100 if metric["unit"] == "percent" else 1
        assert (cell["state"], cell["n"]) == ("complete", 12)
        assert cell["value"] == metric["value"] / share
        assert cell["low"] == metric["interval"]["low"] / share
        assert (run / "report.html").is_file()
    for task in TASKS:
        good, empty = board[f"good-{task}"], board[f"empty-{task}"]
        assert (good["rank"], empty["rank"]) == (1, 2)
        assert "to_best" not in good
        assert empty["to_best"] == pytest.approx(empty["value"] - good["value"])
    page = html.unescape((night.folder / "runs/night/leaderboard.html").read_text())
    assert "script-src 'none'" in page
    assert all(f'href="{name}/report.html"' in page for name in board)
    mean = sum(board[f"good-{task}"]["value"] for task in TASKS) / 3
    assert f">{100 * mean:.1f}<" in page
    assert re.search(rf"good +.* {100 * mean:.1f}", output), "the terminal has the same mean"
    rows = {row["run"]: row for row in csv.DictReader((night.folder / "runs/night/leaderboard.csv").open())}
    assert {name: float(row["value"]) for name, row in rows.items()} == {name: board[name]["value"] for name in names}
    assert "| good |" in (night.folder / "runs/night/leaderboard.md").read_text()


def test_killed_in_the_middle_and_resumed(night: Night) -> None:
    night.write("toy toy_two")
    night.run("--run", "whole")
    calls = night.calls()
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
    assert 2 * calls <= night.calls() <= 2 * calls + 4
    for name in night.board():
        folders = [night.folder / run / name for run in ("runs/night", "whole")]
        for read in (results_of, _verdicts):
            one, other = map(read, folders)
            assert one == other, name


def _verdicts(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the verdicts of a run by key, without the checksums of lines: each names when it was answered."""
    lines = map(json.loads, (folder / "verdicts.jsonl").read_bytes().splitlines())
    return {line["key"]: {k: v for k, v in line.items() if k not in ("answer", "crc32")} for line in lines}


@pytest.mark.weekly
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
    board = night.board()
    assert (board["good-toy"]["state"], board["good-toy_two"]["state"]) == ("failed", "complete")
    assert (
        "its answers are of toy-model 1, and good is toy-model 2 now: remove the folder" in board["good-toy"]["error"]
    )
    assert "holds the run of another command" in night.run(code=2)


@pytest.mark.weekly
def test_one_server_serves_all_cells_of_a_checkpoint(night: Night) -> None:
    models = '  words: {model: "demo:hash"}\n  a: {model: "demo:constant:A"}\n'
    night.write("toy colours.yaml", models=models)
    night.run(code=4)  # words are no answer
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


def test_the_best_is_called_better_by_chance_in_few_suites() -> None:
    """Of four equal models the best is chosen by the items that test it."""
    random = np.random.default_rng(5)
    wrong = sum(significant(random.random((4, 60)) < 0.5) for _ in range(200))
    assert wrong <= 10 + 7, "5% of 200, and what their binomial allows in 99%"
    assert significant(random.random((4, 60)) < np.array([[0.9], [0.4], [0.4], [0.4]]))


def significant(right: Any) -> bool:
    """Returns True if any model is called worse than the best one."""
    names = np.array([f"{number:016d}" for number in range(right.shape[1])], dtype="S16")
    clusters = np.arange(right.shape[1], dtype=np.uint64)
    step = Step("t", "accuracy")
    runs: Any = [Columns(step, Units(names, row.astype(float), clusters)) for row in right]
    return any(pair is not None and pair.significant for pair in statistics.to_best(runs, step))


@dataclass
class Columns:
    """The part of a run's scores that a leaderboard reads."""

    step: Step
    of_step: Units

    @property
    def steps(self) -> dict[Step, Any]:
        return {self.step: {}}

    def repeats(self, _: Step) -> int:
        return 1

    def units(self, _: Step, *, questions: bool = False) -> Units:
        assert not questions
        return self.of_step
