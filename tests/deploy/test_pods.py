"""The rendered overlays, run pod by pod: the Job finishes, and its results are a local run's."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.certificates import issue
from helpers.manifests import Manifest, of_kind, rendered, with_components
from helpers.pod_runner import Cluster, missing

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(why := missing()), reason=why or "runs"),
]
BIN = Path(sys.executable).parent


def results(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "results.json").read_text())
    return found


def local_run(folder: Path, *flags: str) -> dict[str, Any]:
    command = [str(BIN / "orchestrator"), "eval", *flags, "--synthetic", "--model=demo:hash", "--quiet"]
    command += ["--run", str(folder)]
    subprocess.run(command, check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(folder.parent)})
    return results(folder)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return local_run(tmp_path_factory.mktemp("local") / "run", "--task", "vstar_bench", "--limit", "40")


def logs(cluster: Cluster) -> str:
    return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted((cluster.folder / "logs").iterdir()))


def with_arguments(manifests: list[Manifest], *arguments: str) -> list[Manifest]:
    """The same manifests, the orchestrator with further flags."""
    copy: list[Manifest] = json.loads(json.dumps(manifests))
    for manifest in copy:
        if manifest["kind"] == "Job" and manifest["metadata"]["name"] == "orchestrator":
            manifest["spec"]["template"]["spec"]["containers"][0]["args"] += arguments
    return copy


async def answered(cluster: Cluster, run: Path, count: int) -> None:
    """Waits until so many responses are in the run's log."""
    end = time.monotonic() + 60
    while not (run / "responses.jsonl").exists() or (run / "responses.jsonl").read_bytes().count(b"\n") < count:
        assert time.monotonic() < end, f"no {count} answers\n{logs(cluster)}"
        await asyncio.sleep(0.05)


async def test_the_demo_runs_to_a_report_with_a_local_runs_results(tmp_path: Path, local: dict[str, Any]) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.apply(rendered("overlay/cpu-demo"))
        assert await cluster.job("orchestrator") == "Complete", logs(cluster)
        run = cluster.claim("lyncean-runs") / "demo"
        assert results(run) == local
        assert (run / "report.html").stat().st_uid == 65532
        assert json.loads((run / "manifest.json").read_text())["replicas"] != []
        assert not [pod.name for pod in cluster.pods if pod.restarts]
        for app in ("model-server", "scorer"):
            assert cluster.probes[app, "startup", True]
            assert cluster.probes[app, "readiness", True]


async def test_shards_are_run_and_merged(tmp_path: Path, local: dict[str, Any]) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.apply(rendered("overlay/sharded"))
        assert await cluster.job("orchestrator") == "Complete", logs(cluster)
        assert await cluster.job("merge") == "Complete", logs(cluster)
        runs = cluster.claim("lyncean-runs") / "demo"
        assert results(runs / "merged") == local
        planned = [
            sum(task["counts"]["planned"] for task in results(runs / f"shard-{n}")["tasks"].values()) for n in range(4)
        ]
        assert sum(planned) == 40
        assert all(planned)


async def test_drains_change_no_metric(tmp_path: Path, local: dict[str, Any]) -> None:
    manifests = with_arguments(rendered("overlay/cpu-demo"), "--max-requests-per-second=4")
    async with Cluster(tmp_path) as cluster:
        cluster.apply(manifests)
        run = cluster.claim("lyncean-runs") / "demo"
        await answered(cluster, run, 4)
        before = {pod.address for pod in cluster.of("model-server")}
        first, second = cluster.of("model-server")
        await cluster.drain(first)
        await answered(cluster, run, 12)
        # The other goes the hard way: its node is lost, and nobody asks.
        await cluster.drain(second, grace=0)
        await answered(cluster, run, 20)
        (pod,) = cluster.of("orchestrator")
        await cluster.drain(pod)
        assert pod.exit_code == 3, logs(cluster)
        assert await cluster.job("orchestrator") == "Complete", logs(cluster)
        assert results(run) == local
        answers = [json.loads(line) for line in (run / "responses.jsonl").read_text().splitlines()]
        keys = [answer["key"] for answer in answers]
        assert len(keys) == len(set(keys)) == 40, "an item was asked again or lost"
        after = {pod.address for pod in cluster.of("model-server")}
        assert not before & after
        replicas = {answer["replica"] for answer in answers}
        assert {f"{address}:50051" for address in before} & replicas
        assert {f"{address}:50051" for address in after} & replicas


async def test_a_mistake_fails_the_job_at_once(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.apply(with_arguments(rendered("overlay/cpu-demo"), "--task=no_such_task"))
        end = await cluster.job("orchestrator")
        assert end.endswith("exited with 2"), end
        assert len([pod for pod in cluster.past if pod.owner["kind"] == "Job"]) == 1


async def test_the_demo_runs_over_mutual_tls(tmp_path: Path, local: dict[str, Any]) -> None:
    manifests = with_components("cpu-demo", "mtls")
    async with Cluster(tmp_path) as cluster:
        for name, files in issue(of_kind(manifests, "Certificate")).items():
            cluster.secret(name, files)
        cluster.apply(manifests)
        assert await cluster.job("orchestrator") == "Complete", logs(cluster)
        assert results(cluster.claim("lyncean-runs") / "demo") == local
        assert not [pod.name for pod in cluster.pods if pod.restarts]
