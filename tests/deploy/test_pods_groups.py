"""A run of a model over several nodes, with a stand-in for the engine's leader and workers, and its policies on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.manifests import of_kind
from helpers.pod_runner import HERE, Cluster, missing
from helpers.pod_states import PodApi
from helpers.submitting import submitted

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(why := missing()), reason=why or "runs"),
]
BIN = Path(sys.executable).parent
TASK = ("--task=vstar_bench", "--synthetic", "--limit=30", "--max-requests-per-second=3")
NODES = ("--engine=vllm", "--gpus=8", "--nodes=2", "--model=/models/large", "--component=network-policies")


def logs(folder: Path) -> str:
    return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in sorted((folder / "logs").iterdir()))


async def test_a_group_serves_is_made_anew_when_a_worker_ends_and_goes_with_its_run(tmp_path: Path) -> None:
    async with Cluster(tmp_path / "cluster") as cluster:
        cluster.image("vllm/vllm-openai:v0.33.0", [sys.executable, str(HERE / "group_engine.py")])
        manifests = submitted(*TASK, *NODES, "--run=one")
        cluster.apply(of_kind(manifests, "PersistentVolumeClaim"))
        (cluster.claim("lyncean-models") / "large").mkdir()
        cluster.apply(manifests)
        run = cluster.claim("lyncean-runs") / "one"
        end = time.monotonic() + 200
        while not (run / "responses.jsonl").exists() or (run / "responses.jsonl").read_bytes().count(b"\n") < 3:
            assert time.monotonic() < end, logs(cluster.folder)
            await asyncio.sleep(0.1)
        before = cluster.of("model-server")
        assert sorted(pod.name for pod in before) == ["engine-one-0", "engine-one-0-1"]
        worker = next(pod for pod in before if pod.name == "engine-one-0-1")
        worker.processes["vllm"].send_signal(signal.SIGKILL)
        assert await cluster.job("orchestrator-one") == "Complete", logs(cluster.folder)
        after = cluster.of("model-server")
        assert sorted(pod.name for pod in after) == ["engine-one-0", "engine-one-0-1"]
        assert not set(after) & set(before)
        results = json.loads((run / "results.json").read_text())
        (task,) = results["tasks"].values()
        assert (task["counts"]["planned"], task["counts"]["failed"]) == (30, 0)
        keys = [json.loads(line)["key"] for line in (run / "responses.jsonl").read_text().splitlines()]
        assert len(keys) == len(set(keys))
        with PodApi(cluster) as api:
            env = {**os.environ, "KUBECONFIG": str(api.config(tmp_path / "config"))}
            command = [str(BIN / "orchestrator"), "submit", "--run=one", "--delete"]
            deleted = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=env)
            assert deleted.returncode == 0, deleted.stderr
        assert cluster.pods == [], "the nodes' GPUs are free"
        left = {one["kind"] for one in cluster.manifests}
        assert left == {"PersistentVolumeClaim", "ServiceAccount"}
