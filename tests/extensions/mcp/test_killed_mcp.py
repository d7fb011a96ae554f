"""A run with the sandbox, zoom and a published MCP server that is killed, and the servers of tools with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="pip install 'lyncean[mcp]'")

from helpers.engine_cluster import HERE, Server
from helpers.kills import answered, keys, play_killed, play_whole
from helpers.noisy_task import task
from helpers.same_results import results_of

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(3600)]

GIT = {f"GIT_{who}_{field}": f"{field}@example.org" for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
KILLS, ROWS = 20, 40


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "work"
    for args in (["init", "-q", folder], ["-C", folder, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *args], env=os.environ | GIT, check=True)
    monkeypatch.setenv("REPOSITORY", str(folder))
    return str(folder)


@pytest.fixture
def endpoint(tmp_path: Path, repository: str) -> Iterator[str]:
    server = Server(tmp_path / "model", [sys.executable, str(HERE / "working_server.py")]).start()
    yield server.address
    server.kill()


def commands(folder: Path, program: str, repository: str) -> list[list[str]]:
    """Returns the words of the sandbox and of the MCP server, which log each call that they answered."""
    limits = ["--max-concurrency", "1", "--max-sessions", "1000"]
    script = folder / "git.sh"
    script.write_text(f"#!/bin/sh\nexec {program} --repository {repository}\n")
    script.chmod(0o700)
    served = [["sandbox", *limits], ["mcp", str(script), *limits, "--env", "PATH"]]
    logged = [sys.executable, str(HERE / "logged_tools.py")]
    return [[*logged, str(folder / f"calls{number}"), *args] for number, args in enumerate(served)]


def test_killed_runs_with_the_sandbox_and_a_published_server(tmp_path: Path, endpoint: str, repository: str) -> None:
    program = os.environ.get("MCP_SERVER_GIT") or shutil.which("mcp-server-git", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("pip install mcp-server-git")
    options = {"tasks": task(tmp_path, ROWS), "endpoint": endpoint, "tools": ["zoom"], "timeout": 600}
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
    servers = commands(tmp_path / "killed", program, repository)
    play_killed(tmp_path / "killed" / "run", KILLS, options, servers)
    play_whole(tmp_path, tmp_path / "whole" / "run", options, commands(tmp_path / "whole", program, repository))
    assert results_of(tmp_path / "killed" / "run") == results_of(tmp_path / "whole" / "run")
    assert set(keys(tmp_path / "killed" / "run").values()) == {1}
    for number in range(2):
        log, other = (answered(tmp_path / name / f"calls{number}") for name in ("killed", "whole"))
        assert not other - log
        assert (log - other).total() <= KILLS, "a call that was answered and not logged when its run was killed"
