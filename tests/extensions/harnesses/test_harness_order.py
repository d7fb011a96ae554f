"""Tasks whose code draws random numbers to score: their value in the order of the harness's own evaluator."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.engine_cluster import Server
from helpers.toy_harness import ToyHarness, write

from lyncean_harnesses.library.values import encode
from lyncean_harnesses.scoring import inside, task_metric
from lyncean_harnesses.scoring.order import DRAWN
from scorer.metrics import Params

MODEL = Path(__file__).parents[2] / "helpers" / "harness_model.py"
ROWS = 12

_TASK = """
task: {name}
dataset_path: nobody/none
test_split: test
output_type: generate_until
process_results: !function {module}.results
metric_list: [{{metric: right}}]
"""
_DRAWS = (
    "def results(doc, answers):\n    return {'right': float(doc['read'] or random.choice('ABCD') == doc['answer'])}\n"
)
TASKS = {
    "draws.yaml": _TASK.format(name="draws", module="drawing"),
    "drawing.py": f"import random\n\n\n{_DRAWS}",
    "seeds.yaml": _TASK.format(name="seeds", module="seeding"),
    "seeding.py": f"import random\n\nrandom.seed(42)\n\n\n{_DRAWS}",
    "reads.yaml": _TASK.format(name="reads", module="reading"),
    "reading.py": "def results(doc, answers):\n    return {'right': float(doc['answer'] == 'A')}\n",
}


def rows(**more: Any) -> list[dict[str, Any]]:
    """Returns rows of which two thirds cannot be read."""
    return [{"question": f"Which {n}?", "answer": "ABCD"[n % 4], "read": n % 3 == 0} | more for n in range(ROWS)]


def expected(seed: int) -> float:
    """Returns the value of an evaluator that seeds once and scores the rows in their order."""
    draws = random.Random(seed)
    return sum(row["read"] or draws.choice("ABCD") == row["answer"] for row in rows()) / ROWS


@pytest.fixture
def model(tmp_path: Path) -> Iterator[str]:
    server = Server(tmp_path / "model", [sys.executable, str(MODEL)]).start()
    yield server.address
    server.kill()


def test_draws_come_as_in_the_evaluator_where_all_answers_are_there(model: str, tmp_path: Path) -> None:
    toy = ToyHarness(tmp_path)
    write(toy.tasks, TASKS)
    toy.data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    tasks = [word for name in ("draws", "seeds", "reads") for word in ("--task", f"lm-eval:{name}")]
    options = ("--include-path", "tasks", "--data", str(toy.data), "--endpoint", model, "--run", "run")
    command = [sys.executable, "-m", "orchestrator", "eval", *tasks, *options]
    done = subprocess.run(command, env=toy.environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    metrics = {name: results["tasks"][f"lm-eval:{name}"]["metrics"][0] for name in ("draws", "seeds", "reads")}
    assert "in_harness_order" not in metrics["reads"]["details"]
    for name, seed in (("draws", 0), ("seeds", 42)):
        value = metrics[name]["details"]["in_harness_order"]
        assert value == expected(seed)
        sentence = f"lm-eval:{name}: right is {value:.6g} in the order of lm-evaluation-harness's own evaluator"
        assert (sentence in " ".join(done.stdout.split())) == (value != metrics[name]["value"])
    assert {note["kind"] for note in results["notes"]} == {"metric"}
    assert "own evaluator, after its seed" in (tmp_path / "run" / "report.html").read_text()


def test_of_a_part_of_the_rows_there_is_no_such_value(model: str, tmp_path: Path) -> None:
    toy = ToyHarness(tmp_path)
    write(toy.tasks, TASKS)
    toy.data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    command = [sys.executable, "-m", "orchestrator", "eval", "--task", "lm-eval:draws", "--include-path", "tasks"]
    command += ["--data", str(toy.data), "--endpoint", model, "--run", "run", "--shard", "1/2"]
    done = subprocess.run(command, env=toy.environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    details = results["tasks"]["lm-eval:draws"]["metrics"][0]["details"]
    assert "in_harness_order" not in details
    assert details["no_harness_order"] == "these are not the first documents of the data"


class Counting:
    """A task's scoring half that draws for every document, and counts how often it scores them all."""

    include = ()
    played = 0

    def results_of(self, requests: list[Any]) -> list[dict[str, dict[str, float]]]:
        self.played += 1
        return [{"none": {"right": float(random.random() < 0.5), "left": random.random()}} for _ in requests]

    def aggregates(self, metric: str) -> bool:
        return True

    def aggregate(self, metric: str, values: list[float]) -> float:
        return sum(values) / len(values)

    def is_mean(self, metric: str) -> bool:
        return True

    def cluster(self, value: Any) -> None:
        return None


def test_documents_are_scored_in_order_once_for_all_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {"none": {"right": 1.0, "left": 0.0}}
    records = [encode({"index": n, "results": results, DRAWN: ({"row": n}, [["A"]])}) for n in range(ROWS)]
    table = inside._table({"repeat": [0] * ROWS, "scored": [True] * ROWS, "labels": [{}] * ROWS, "details": records})
    task, library = Counting(), SimpleNamespace(seeds=(0, 0), title="it", runs_text=lambda *_: "", config=lambda *_: {})
    monkeypatch.setattr(task_metric, "task_of", lambda _: task)
    monkeypatch.setattr(task_metric, "harness", lambda _: library)
    monkeypatch.setattr(task_metric, "_last", [])
    draws = random.Random(0)
    played = [(float(draws.random() < 0.5), draws.random()) for _ in range(ROWS)]
    for _ in range(2):
        for index, name in enumerate(("right", "left")):
            params = Params({"task": "lm-eval:counts", "metric": name})
            result = task_metric.measured_here(params, table)
            assert result.details["in_harness_order"] == sum(draw[index] for draw in played) / ROWS
    assert task.played == 1
    other = inside._table({"repeat": [0], "scored": [True], "labels": [{}], "details": records[:1]})
    task_metric.measured_here(Params({"task": "lm-eval:counts", "metric": "right"}), other)
    assert task.played == 2
