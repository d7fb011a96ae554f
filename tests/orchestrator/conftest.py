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


@pytest.fixture
def expected(cluster: Cluster, shared_scorer: Server) -> bytes:
    """The results of an undisturbed run of 120 rows; its calls are not counted."""
    server = cluster.model("--concurrency", "8")
    cluster.eval("undisturbed", [server], shared_scorer, "--limit", "120")
    server.kill()
    (server.folder / "calls").unlink()
    return cluster.results("undisturbed")
