"""Noise of a server for equal requests, shown beside the gains of a training."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Cluster, Server

from orchestrator.compare.series import Change

SUITE = """\
tasks: {{toy: {{synthetic: true, limit: 24}}}}
options: {{scorer: "{scorer}", seed: 1}}
gate: {{baseline: previous, conditions: [no_fall]}}
"""


@pytest.fixture
def cluster(tmp_path: Path, shared_scorer: Server) -> Iterator[Cluster]:
    instance = Cluster(tmp_path)
    (tmp_path / "night.yaml").write_text(SUITE.format(scorer=shared_scorer.address))
    yield instance
    instance.close()


def drift(cluster: Cluster, *servers: Server, code: int = 0) -> str:
    addresses = ",".join(server.address for server in servers)
    return cluster.orchestrator("check", "--endpoint", addresses, "--drift", "night.yaml", code=code)


def measured(cluster: Cluster) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((cluster.folder / "runs/night/drift.json").read_text())
    return report


def test_a_server_that_answers_alike_has_no_noise(cluster: Cluster) -> None:
    one, two = cluster.model(), cluster.model()
    output = drift(cluster, one, two)
    assert "alone and in-batches: 0.0% other answers, 0.0% other scores, +0.0 points" in output
    assert "in-batches and replica: 0.0% other answers" in output
    assert "noise of the server: 0.0 points over 24 items" in output
    assert (measured(cluster)["noise"], len(measured(cluster)["ways"])) == (0.0, 6)
    calls = cluster.calls().total()
    assert calls == 4 * 24, "each way asks every item"
    drift(cluster, one, two)
    assert cluster.calls().total() == calls, "nothing is asked twice"


def test_a_replica_that_answers_otherwise_is_noise(cluster: Cluster) -> None:
    """The second replica gives every other row an empty answer."""
    output = drift(cluster, cluster.model(), cluster.model("--empty", "2"))
    (first, second) = re.findall(r"alone and replica: ([\d.]+)% other answers, ([\d.]+)% other scores", output)[0]
    assert float(first) >= float(second) > 0
    report = measured(cluster)
    assert report["noise"] >= max(abs(way["difference"]) for way in report["ways"]) > 0


def test_other_weights_are_no_replica(cluster: Cluster) -> None:
    assert "was answered by another model" in drift(cluster, cluster.model(), cluster.model("--weights", "2"), code=2)


def test_a_gain_up_to_the_noise_is_noise() -> None:
    change = Change("b", "", "a", 100, 0.02, -0.1, 0.14, noise=0.03)
    assert change.is_noise
    assert change.as_json()["is_noise"]
    assert not Change("b", "", "a", 100, 0.02, -0.1, 0.14).is_noise
    assert not Change("b", "", "a", 100, 0.04, -0.1, 0.14, noise=0.03).is_noise


def test_mistakes_are_named(cluster: Cluster) -> None:
    for arguments, message in (
        (["--drift", "night.yaml"], "--drift: give --endpoint H:P"),
        (["--run", "x", "a:1"], "--run is the folder of --drift"),
        (["--drift", "night.yaml", "--junit", "x", "a:1"], "--junit is of the contract's checks"),
        (["--drift", "none.yaml", "a:1"], "none.yaml cannot be read"),
    ):
        assert message in cluster.orchestrator("check", *arguments, code=2)
