"""A run with the sandbox, zoom and a published MCP server that is killed, and the servers of tools with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

pytest.importorskip("mcp", reason="pip install 'lyncean[mcp]'")

from helpers.engine_cluster import HERE, Server, environment
from helpers.noisy_task import task
from helpers.same_results import results_of

from orchestrator.api import evaluate

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(3600)]

GIT = {f"GIT_{who}_{what}": f"{what}@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
KILLS, ROWS = 20, 40


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "work"
    for words in (["init", "-q", folder], ["-C", folder, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *words], env=os.environ | GIT, check=True)
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
    return [[*logged, str(folder / f"calls{number}"), *words] for number, words in enumerate(served)]


def answered(log: Path) -> Counter[str]:
    return Counter(line.split()[0] for line in log.read_text().splitlines())


def test_killed_runs_with_the_sandbox_and_a_published_server(tmp_path: Path, endpoint: str, repository: str) -> None:
    program = os.environ.get("MCP_SERVER_GIT") or shutil.which("mcp-server-git", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("pip install mcp-server-git")
    options = {"tasks": task(tmp_path, ROWS), "endpoint": endpoint, "tools": ["zoom"], "timeout": 600}
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
    words = commands(tmp_path / "killed", program, repository)
    killed = subprocess.run(
        [
            *(sys.executable, HERE / "killed_runs.py", tmp_path / "killed" / "run", str(KILLS), "5"),
            *(json.dumps(options), json.dumps(words)),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == 0, killed.stderr
    assert int(killed.stdout) == KILLS
    servers = [
        Server(tmp_path / f"server{number}", command).start()
        for number, command in enumerate(commands(tmp_path / "whole", program, repository))
    ]
    try:
        names = ["zoom", *(f"grpc:{server.address}" for server in servers)]
        evaluate(**options | {"tools": names}, run=tmp_path / "whole" / "run")
    finally:
        for server in servers:
            server.kill()
    assert results_of(tmp_path / "killed" / "run") == results_of(tmp_path / "whole" / "run")
    lines = [orjson.loads(line) for line in (tmp_path / "killed" / "run" / "responses.jsonl").read_bytes().splitlines()]
    assert set(Counter(line["key"] for line in lines).values()) == {1}
    for number in range(2):
        log, other = (answered(tmp_path / name / f"calls{number}") for name in ("killed", "whole"))
        assert not other - log
        assert (log - other).total() <= KILLS, "a call that was answered and not logged when its run was killed"
