"""Runs with servers of tools that are killed, and the servers with them: the same results, sessions made anew."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import HERE, Server
from helpers.kills import answered, keys, play_killed, play_whole
from helpers.noisy_task import task
from helpers.same_results import results_of

TOOLS = (HERE.parents[1] / "examples" / "counter_tools.py", HERE / "diary_tools.py")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Server(tmp_path_factory.mktemp("calling"), [sys.executable, str(HERE / "calling_server.py")]).start()
    yield server.address
    server.kill()


def command(log: Path, file: Path) -> list[str]:
    """Returns the words of a server of tools that makes one call at a time and keeps every session."""
    limits = ["--max-concurrency", "1", "--max-sessions", "1000"]
    return [sys.executable, str(HERE / "logged_tools.py"), str(log), "serve", str(file), *limits]


def replayed(log: Path) -> int:
    return sum(int(line.split()[1]) for line in log.read_text().splitlines())


@pytest.mark.parametrize(("kills", "rows"), [(5, 24), pytest.param(20, 160, marks=pytest.mark.weekly)], ids=["5", "20"])
def test_killed_runs_and_servers_of_tools(tmp_path: Path, endpoint: str, kills: int, rows: int) -> None:
    options = {"tasks": task(tmp_path, rows), "endpoint": endpoint, "repeats": 2, "tools": ["zoom"], "max_unparsed": 1}
    logs = [tmp_path / f"killed{number}" for number in range(2)]
    commands = [command(log, file) for log, file in zip(logs, TOOLS, strict=True)]
    play_killed(tmp_path / "killed", kills, options, commands)
    whole = [tmp_path / f"whole{number}" for number in range(2)]
    others = [command(log, file) for log, file in zip(whole, TOOLS, strict=True)]
    play_whole(tmp_path, tmp_path / "whole", options, others)
    assert results_of(tmp_path / "killed") == results_of(tmp_path / "whole")
    assert set(keys(tmp_path / "killed").values()) == {1}
    for log, other in zip(logs, whole, strict=True):
        twice = answered(log) - answered(other)
        assert not answered(other) - answered(log)
        assert twice.total() <= kills, "a call that was answered and not logged when its run was killed"
    assert sum(map(replayed, logs)) > sum(map(replayed, whole)) == 0, "sessions were made anew"
