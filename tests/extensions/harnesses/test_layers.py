"""Scorer, run and results name the layers that lock down processes with foreign scoring code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import Server
from helpers.toy_harness import RUNS_TEXT, ToyHarness

HELPERS = Path(__file__).parents[2] / "helpers"
WITHOUT = [sys.executable, str(HELPERS / "without_landlock.py")]
ALL, FEWER = "landlock, seccomp, rlimits", "seccomp, rlimits"


@pytest.fixture
def toy(tmp_path: Path) -> ToyHarness:
    return ToyHarness(tmp_path)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    server = Server(tmp_path / "model", ["env", "ANSWER=3", sys.executable, str(HELPERS / "answering_server.py")])
    yield server.start().address
    server.kill()


def run(toy: ToyHarness, *args: str, before: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [*(before or []), sys.executable, "-m", "orchestrator", *args]
    return subprocess.run(
        command, env=toy.environment, cwd=toy.data.parent, capture_output=True, text=True, check=False
    )


def test_layers_are_said_and_recorded_and_their_lack_needs_trust(toy: ToyHarness, address: str, tmp_path: Path) -> None:
    args = ["eval", "--task", "lm-eval:computes", "--include-path", "tasks", "--data", str(toy.data)]
    args += ["--endpoint", address, "--patience", "30"]
    done = run(toy, *args, "--run", "closed")
    assert done.returncode == 0, done.stderr
    assert f"cell: {ALL}\n" in done.stdout
    results = tmp_path / "closed" / "results.json"
    assert json.loads(results.read_text())["cell"] == ALL
    refused = run(toy, *args, "--run", "open", before=WITHOUT)
    assert refused.returncode == 2
    assert RUNS_TEXT in refused.stderr
    assert "give --trust-task-code to allow that" in refused.stderr
    done = run(toy, *args, "--run", "open", "--trust-task-code", before=WITHOUT)
    assert done.returncode == 0, done.stderr
    assert f"cell: {FEWER}\n" in done.stdout
    opened = json.loads((tmp_path / "open" / "results.json").read_text())
    assert opened["cell"] == FEWER
    closed = json.loads(results.read_text())
    assert opened["tasks"] == closed["tasks"]
    before = results.read_bytes()
    assert run(toy, "score", "closed", "--include-path", "tasks").returncode == 0
    assert results.read_bytes() == before


def test_a_scorer_logs_what_it_lacks(toy: ToyHarness, tmp_path: Path) -> None:
    variables = [f"{name}={toy.environment[name]}" for name in ("PYTHONPATH", "XDG_CACHE_HOME")]
    for number, (before, message) in enumerate((([], f"cell: {ALL}\n"), (WITHOUT, f"cell: {FEWER} (landlock: not on"))):
        command = ["env", *variables, *before, sys.executable, "-m", "scorer", "serve", "--foreign-tasks"]
        server = Server(tmp_path / f"scorer{number}", command).start()
        server.kill()
        assert message in "".join(
            path.read_text() for path in (tmp_path / f"scorer{number}").iterdir() if path.is_file()
        )
