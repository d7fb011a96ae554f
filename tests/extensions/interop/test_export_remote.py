"""A run folder at a URL is exported from there."""

from __future__ import annotations

import pytest
from helpers.engine_cluster import Cluster, Server


def test_a_run_is_read_from_its_url(cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cluster.folder)
    url = f"file://{cluster.folder}/far/read"
    cluster.orchestrator(*cluster.words(url, [cluster.model()], shared_scorer))
    (cluster.folder / "runs").rename(cluster.folder / "elsewhere")
    assert '"scored": 40' in cluster.orchestrator("export", url, "--format", "json")
