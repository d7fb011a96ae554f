"""`--metric` for tasks of another harness: of items that have a score, and refused for those that have none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import Server
from helpers.toy_harness import ToyHarness, write

ROOT = Path(__file__).parents[3]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    program = str(ROOT / "tests" / "helpers" / "answering_server.py")
    server = Server(tmp_path / "model", ["env", "ANSWER=3", sys.executable, program]).start()
    yield server.address
    server.kill()


def test_items_of_a_bridged_task_have_any_metric_where_they_have_a_score(address: str, tmp_path: Path) -> None:
    toy = ToyHarness(tmp_path)
    task = (toy.tasks / "compares.yaml").read_text()
    write(toy.tasks, {"several.yaml": task.replace("task: compares", "task: several\nrepeats: 3")})

    def run(task: str, *args: str) -> subprocess.CompletedProcess[str]:
        command = ["eval", "--task", f"lm-eval:{task}", "--include-path", "tasks", "--data", str(toy.data)]
        command += ["--endpoint", address, "--run", str(tmp_path / task), *args]
        return subprocess.run(
            [sys.executable, "-m", "orchestrator", *command],
            env=toy.environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = run("compares", "--repeats", "2", "--metric", "pass_at,k=2")
    assert done.returncode == 0, done.stderr
    (results,) = json.loads((tmp_path / "compares/results.json").read_text())["tasks"].values()
    by_name = {metric["name"]: metric for metric in results["metrics"]}
    assert (by_name["pass at 2"]["value"], by_name["pass at 2"]["denominator"]) == (1.0, 2)
    done = run("several", "--metric", "accuracy")
    assert done.returncode == 4, done.stderr
    assert "several, accuracy: 6 items have no score of their own" in done.stderr
    (results,) = json.loads((tmp_path / "several/results.json").read_text())["tasks"].values()
    by_name = {metric["name"]: metric for metric in results["metrics"]}
    assert by_name["accuracy"]["value"] is None
    assert by_name["right"]["value"] == 1.0
