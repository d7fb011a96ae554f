"""Runs with tools that are killed at any call: the same results, and no call or tool that was done is repeated."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import HERE, Server
from helpers.kills import keys, play_killed
from helpers.noisy_task import task
from helpers.same_results import results_of

from orchestrator.api import evaluate

PROTOCOL = {"tools": ["zoom"], "protocol": "deepeyes"}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two replicas."""
    folder = tmp_path_factory.mktemp("zooming")
    command = [sys.executable, str(HERE / "zooming_server.py")]
    servers = [Server(folder / name, command).start() for name in "ab"]
    yield ",".join(server.address for server in servers)
    for server in servers:
        server.kill()


@pytest.mark.parametrize(
    ("kills", "rows"), [(5, 30), pytest.param(100, 900, marks=pytest.mark.weekly)], ids=["5", "100"]
)
@pytest.mark.parametrize("concurrency", [1, 64])
def test_a_killed_run_has_the_same_results_and_repeats_nothing(
    tmp_path: Path, endpoint: str, concurrency: int, kills: int, rows: int
) -> None:
    options = {"tasks": task(tmp_path, rows), "endpoint": endpoint, "concurrency": concurrency, "repeats": 2}
    options |= {**PROTOCOL, "generation": ["temperature=1"], "max_unparsed": 1}
    play_killed(tmp_path / "killed", kills, options)
    evaluate(**options, run=tmp_path / "whole")
    assert results_of(tmp_path / "killed") == results_of(tmp_path / "whole")
    once = keys(tmp_path / "killed")
    assert once == keys(tmp_path / "whole")
    assert set(once.values()) == {1}
    results = json.loads(results_of(tmp_path / "whole"))
    assert results["tools"]["tool_calls"] > rows
    assert results["usage"]["requests"] == results["tools"]["calls"]
