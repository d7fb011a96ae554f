"""All of MARVEL, end to end over gRPC, against servers whose score is known beforehand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from engine_cluster import ROOT, Cluster, Server

DATA = Path(os.environ.get("LYNCEUS_SHARED_DATA", ROOT.parent / "shared" / "data")) / "marvel" / "marvel.parquet"

ALWAYS = {"1": 191, "2": 185, "3": 198, "4": 196}
"""How many of the 770 puzzles have this answer: what always giving it scores."""

ALWAYS_1_BY_PATTERN = {
    "Temporal Movement": 25.71,
    "Spatial Relationship": 26.67,
    "Quantities": 24.17,
    "Mathematical": 27.88,
    "2D-Geometry": 20.83,
    "3D-Geometry": 15.0,
}


def figures(cluster: Cluster, name: str) -> dict[tuple[str, ...], float]:
    results = json.loads(cluster.results("run"))["tasks"]["marvel"]
    assert results["counts"]["planned"] == 3850
    return {tuple(f["labels"].values()): f["value"] for f in results["figures"] if f["name"] == name}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not DATA.is_file(), reason=f"needs MARVEL's data at {DATA} (set LYNCEUS_SHARED_DATA)")
def test_a_server_that_always_gives_the_same_number(cluster: Cluster, shared_scorer: Server) -> None:
    words = ("--task", "marvel", "--data", str(DATA), "--model", "demo:constant:1", "--run", "run")
    cluster.orchestrator("eval", *words, "--scorer", shared_scorer.address, timeout=500)
    found = figures(cluster, "AVR")
    assert found[()] == pytest.approx(191 / 770)
    assert {name: round(100 * found[(name,)], 2) for name in ALWAYS_1_BY_PATTERN} == ALWAYS_1_BY_PATTERN
    log = cluster.folder / "run" / "responses.jsonl"
    answers = log.read_bytes()
    assert answers.count(b'"parts":[{"text":"1"}],"finish_reason"') == 3850
    for answer in ("2", "3", "4"):
        said = b'"parts":[{"text":"%b"}],"finish_reason"' % answer.encode()
        log.write_bytes(answers.replace(b'"parts":[{"text":"1"}],"finish_reason"', said))
        cluster.orchestrator("score", "run", "--scorer", shared_scorer.address)
        assert figures(cluster, "AVR")[()] == pytest.approx(ALWAYS[answer] / 770)
