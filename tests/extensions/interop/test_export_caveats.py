"""Exports say beside the metrics what a run asked of its data, and with which settings."""

from __future__ import annotations

from pathlib import Path

import orjson
from helpers.engine_cluster import Cluster, Server
from helpers.report_runs import marvel_run

from lyncean_interop.facts import caveats
from lyncean_interop.tables import markdown
from orchestrator.run_folder.reader import open_run


def test_a_part_of_the_samples_is_said(cluster: Cluster, shared_scorer: Server) -> None:
    half = cluster.model("--weights", "2", "--concurrency", "4")
    cluster.eval("random", [half], shared_scorer, "--limit", "120", "--share", "0.5")
    assert any("asked a random 60" in line for line in caveats(open_run(cluster.folder / "random"), "toy"))
    cluster.eval("stopped", [half], shared_scorer, "--limit", "120", "--until", "width<=30")
    assert any("stopped early" in line for line in caveats(open_run(cluster.folder / "stopped"), "toy"))


def test_settings_that_are_not_the_benchmarks_own_are_said(cluster: Cluster, shared_scorer: Server) -> None:
    settings = ("--generation", "max_output_tokens=64,temperature=0.6")
    cluster.eval("set", [cluster.model()], shared_scorer, "--limit", "4", *settings)
    run = open_run(cluster.folder / "set")
    assert run.deviations == "max_output_tokens=64, temperature=0.6"
    assert f"not the benchmark's own decoding: {run.deviations}" in markdown([run])


def test_a_note_of_an_unknown_kind_is_said(tmp_path: Path) -> None:
    path = marvel_run(tmp_path / "one", puzzles=8)
    results = orjson.loads((path / "results.json").read_bytes())
    texts = {"sentence": "marvel asked every other sample", "brief": "half of the samples"}
    note = {"kind": "every other", "task": "marvel", **texts}
    (path / "results.json").write_bytes(orjson.dumps(results | {"notes": [note]}))
    run = open_run(path)
    assert note["sentence"] in markdown([run])
    assert caveats(run, "marvel")[0] == "asked every other sample"
