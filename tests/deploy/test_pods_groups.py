"""The overlay of a model over several nodes, run with a stand-in for the engine's leader and workers."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

import pytest
from helpers.manifests import Manifest, of_kind, rendered
from helpers.pod_runner import HERE, Cluster, missing

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(why := missing()), reason=why or "runs"),
]


def on_synthetic_data(manifests: list[Manifest]) -> list[Manifest]:
    """The same, on data that needs no volume, and one answer at a time."""
    copy: list[Manifest] = json.loads(json.dumps(manifests))
    (job,) = (one for one in of_kind(copy, "Job") if one["metadata"]["name"] == "orchestrator")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    more = ("--task=vstar_bench", "--synthetic", "--limit=30", "--max-requests-per-second=3")
    dropped = ("--task=", "--data=")
    container["args"] = [*(word for word in container["args"] if not word.startswith(dropped)), *more]
    return copy


def logs(folder: Path) -> str:
    return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in sorted((folder / "logs").iterdir()))


async def test_a_group_serves_and_is_made_anew_when_a_worker_ends(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.image("vllm/vllm-openai:v0.33.0", [sys.executable, str(HERE / "group_engine.py")])
        manifests = on_synthetic_data(rendered("overlay/multi-node"))
        cluster.apply(of_kind(manifests, "PersistentVolumeClaim"))
        (cluster.claim("lyncean-models") / "model").mkdir()
        cluster.apply(manifests)
        run = cluster.claim("lyncean-runs") / "marvel"
        end = time.monotonic() + 150
        while not (run / "responses.jsonl").exists() or (run / "responses.jsonl").read_bytes().count(b"\n") < 3:
            assert time.monotonic() < end, logs(tmp_path)
            await asyncio.sleep(0.1)
        before = cluster.of("engine")
        assert sorted(pod.name for pod in before) == ["engine-0", "engine-0-1"]
        worker = next(pod for pod in before if pod.name == "engine-0-1")
        worker.processes["vllm"].send_signal(signal.SIGKILL)
        assert await cluster.job("orchestrator") == "Complete", logs(tmp_path)
        after = cluster.of("engine")
        assert sorted(pod.name for pod in after) == ["engine-0", "engine-0-1"]
        assert not set(after) & set(before)
        results = json.loads((run / "results.json").read_text())
        (task,) = results["tasks"].values()
        assert task["counts"]["planned"] == 30
        keys = [json.loads(line)["key"] for line in (run / "responses.jsonl").read_text().splitlines()]
        assert len(keys) == len(set(keys))
