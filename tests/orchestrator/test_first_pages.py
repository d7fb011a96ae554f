"""The commands of README.md and docs/evaluate-a-model.md, typed into a shell as they stand there.

What a test cannot have (a checkpoint of seven billion weights, a cluster's names) is replaced, and rows are few.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_cluster import Cluster, Server, environment

from orchestrator.benchmarks.marvel import BENCHMARK

ROOT = Path(__file__).parents[2]


def blocks(page: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = list(islice(BENCHMARK.synthetic("marvel", 0), 2))
    table = [{**row.fields, "image": {"bytes": row.image("image"), "path": None}} for row in rows]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "marvel.parquet")
    return tmp_path


def type_in(text: str, folder: Path, model: Server, scorer: Server) -> str:
    for written, here in {
        "Qwen/Qwen2.5-VL-7B-Instruct": "demo:hash",
        "model:50051": model.address,
        "models.svc:50051": model.address,
        "scorer.svc:50052": scorer.address,
        "--synthetic ": "--synthetic --limit 6 --model demo:hash ",
        "--limit 20": "",
    }.items():
        text = text.replace(written, here)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euc", text]
    done = subprocess.run(
        command, cwd=folder, env={**environment(), "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    return done.stdout


def demo(cluster: Cluster) -> Server:
    command = [sys.executable, "-m", "model_server", "serve", "--backend", "demo"]
    server = Server(cluster.folder / "demo", command).start()
    cluster.servers.append(server)
    return server


def planned(run: Path) -> int:
    counts: dict[str, int] = json.loads((run / "results.json").read_text())["tasks"]["marvel"]["counts"]
    assert counts["failed"] == 0
    return counts["planned"]


def test_readme(cluster: Cluster, shared_scorer: Server, folder: Path) -> None:
    (evaluations,) = (block for block in blocks("README.md") if "orchestrator eval" in block)
    assert len(evaluations.splitlines()) == 2
    type_in(evaluations, folder, demo(cluster), shared_scorer)
    # The server is what the first command started, so the second finds the run complete.
    assert [planned(run) for run in (folder / "runs").iterdir()] == [10]


def test_evaluate_a_model(cluster: Cluster, shared_scorer: Server, folder: Path) -> None:
    evaluations, again, shards = blocks("docs/evaluate-a-model.md")
    model = demo(cluster)
    printed = type_in(evaluations, folder, model, shared_scorer)
    assert "reform" in printed
    runs = sorted((folder / "runs").iterdir())
    assert sorted(planned(run) for run in runs) == [10, 30]
    first = "orchestrator eval --task vstar_bench --synthetic --run RUN\n"
    type_in(first + again, folder, model, shared_scorer)
    assert (folder / "RUN" / "parity" / "results.json").exists()
    type_in(shards, folder, model, shared_scorer)
    assert planned(folder / "whole") == 30
