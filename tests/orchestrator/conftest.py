"""Fixtures of the orchestrator's tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE / "toy"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from engine_cluster import Cluster, Server  # noqa: E402


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def shared_scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Cluster(tmp_path_factory.mktemp("scorer"))
    yield made.scorer()
    made.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The demo backend without weights."""
    command = [sys.executable, "-m", "model_server", "serve", "--backend", "demo"]
    server = Server(tmp_path_factory.mktemp("demo"), command).start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def expected(shared_scorer: Server, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The results of an undisturbed run of 120 rows."""
    undisturbed = Cluster(tmp_path_factory.mktemp("undisturbed"))
    try:
        undisturbed.eval("run", [undisturbed.model("--concurrency", "8")], shared_scorer, "--limit", "120")
    finally:
        undisturbed.close()
    return undisturbed.results("run")
