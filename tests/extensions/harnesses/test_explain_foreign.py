"""Causes of runs of other harnesses' tasks are tried out by a scorer that knows their folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import Server
from helpers.toy_harness import ToyHarness

ANSWERING = Path(__file__).parents[2] / "helpers" / "answering_server.py"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Server]]:
    started = [
        Server(tmp_path / f"model{answer}", ["env", f"ANSWER={answer}", sys.executable, str(ANSWERING)]).start()
        for answer in "34"
    ]
    yield started
    for server in started:
        server.kill()


def test_what_a_run_was_given_is_given_again(servers: list[Server], tmp_path: Path) -> None:
    toy = ToyHarness(tmp_path)

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orchestrator", *args]
        return subprocess.run(command, env=toy.environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    for name, server in zip(("right", "wrong"), servers, strict=True):
        options = ("--include-path", "tasks", "--data", str(toy.data), "--endpoint", server.address)
        done = run("eval", "--task", "lm-eval:compares", *options, "--run", name, "--patience", "30")
        assert done.returncode == 0, done.stderr
        scored = run("score", name, "--include-path", "tasks", "--metric", "accuracy")
        assert scored.returncode == 0, scored.stderr
    live = ("explain", "right", "wrong", "--endpoint", servers[1].address, "--json", "--metric", "accuracy")
    lacking = run(*live)
    assert lacking.returncode == 2
    assert f"was given by --include-path {toy.tasks}: give it again" in lacking.stderr
    refused = run(*live, "--include-path", "tasks", "--scorer", "127.0.0.1:9")
    assert "give it to the `scorer serve` that --scorer names" in refused.stderr
    done = run(*live, "--include-path", "tasks")
    assert done.returncode == 0, done.stderr
    assert [item["wanted"] for item in json.loads(done.stdout)["experiment"]["items"]] == [0.0, 0.0]
