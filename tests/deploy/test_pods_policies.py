"""Runs whose images are shut in leave the namespace open for other runs, and no policy when they are deleted."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.manifests import REPOSITORY, Manifest, objects, of_kind
from helpers.pod_runner import Cluster, Pod, missing
from helpers.pod_states import PodApi
from helpers.submitting import submitted

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(why := missing()), reason=why or "runs"),
]
BIN = Path(sys.executable).parent
IMAGE = "registry.example/acme/vlm:2.3"
SERVE = (str(BIN / "model-server"), "serve", "--backend=demo", "--model=hash", "--host=0.0.0.0")
TASK = ("--task=vstar_bench", "--synthetic", "--limit=6", "--overlay")
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"


def serving(manifests: list[Manifest]) -> list[Manifest]:
    """A model server in a namespace of its own, as vlm.serving:50051, from a shared one that was rendered."""
    deployment, service = (of_kind(manifests, kind)[0] for kind in ("Deployment", "Service"))
    labels = {"app.kubernetes.io/name": "vlm"}
    pod = deployment["spec"]["template"]
    deployment["metadata"] = service["metadata"] = {"name": "vlm", "namespace": "serving", "labels": labels}
    deployment["spec"]["replicas"] = 1
    pod["metadata"]["labels"] = service["spec"]["selector"] = labels
    (container,) = pod["spec"]["containers"]
    container["args"] = [*SERVE[1:], "--port=50051"]
    del container["envFrom"]
    return [deployment, service]


async def until(holds: Callable[[], bool], cluster: Cluster) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, logs(cluster)
        await asyncio.sleep(0.05)


def logs(cluster: Cluster) -> str:
    files = sorted((cluster.folder / "logs").iterdir())
    return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in files)


def connects(source: Pod, target: Pod) -> bool:
    """Returns True if a connection from a pod to a model server's port succeeds."""
    command = ("ip", "netns", "exec", source.netns, sys.executable, "-S", "-c", CONNECT, target.address, "50051")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "ConnectionRefusedError" in done.stderr, done.stderr
    return done.returncode == 0


async def served(cluster: Cluster) -> Pod:
    """Applies the model server of the namespace `serving` and returns its pod once it is ready."""
    cluster.apply(serving(submitted(*TASK, "cpu-demo", "--servers=shared")))
    await until(lambda: any(pod.ready for pod in cluster.of("vlm")), cluster)
    (pod,) = cluster.of("vlm")
    return pod


def impatient(manifests: list[Manifest], seconds: int = 240) -> list[Manifest]:
    """The same manifests; a pod that does not reach its servers ends after some seconds in place of 45 minutes."""
    for job in of_kind(manifests, "Job"):
        for container in job["spec"]["template"]["spec"].get("initContainers", ()):
            args = container.get("args", [])
            container["args"] = [f"--patience={seconds}" if word == "--patience=2700" else word for word in args]
    return manifests


async def test_a_run_reaches_its_endpoint_where_an_image_was_shut_in(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.image(IMAGE, SERVE)
        vlm = await served(cluster)
        cluster.apply(submitted(*TASK, "proprietary", f"--image={IMAGE}", "--run=shut", "--", "--port=50051"))
        await until(lambda: bool(cluster.of("orchestrator")), cluster)
        assert not connects(cluster.of("orchestrator")[0], vlm), "the image is not shut in"
        assert await cluster.job("orchestrator-shut") == "Complete", logs(cluster)
        cluster.apply(impatient(submitted(*TASK, "gpu", "--endpoint=vlm.serving:50051", "--run=served")))
        await until(lambda: bool(cluster.of("orchestrator")), cluster)
        assert connects(cluster.of("orchestrator")[0], vlm), "another run's policies hold it"
        assert await cluster.job("orchestrator-served") == "Complete", logs(cluster)


def suite_of_the_page(folder: Path) -> Path:
    """The page's suite, of the two models that need no GPU, on synthetic data."""
    page = (REPOSITORY / "docs/kubernetes.md").read_text()
    (example,) = (block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "models:" in block)
    models, _, _ = re.sub(r"  qwen: .*\n", "", example).partition("tasks:")
    (folder / "night.yaml").write_text(f"{models}tasks: [marvel]\noptions: {{synthetic: true, limit: 6}}\n")
    return folder / "night.yaml"


async def test_the_suite_of_the_page_has_its_ways_out_and_leaves_no_policy(tmp_path: Path) -> None:
    suite = suite_of_the_page(tmp_path)
    command = [str(BIN / "orchestrator"), "submit", "--suite", str(suite)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    async with Cluster(tmp_path / "cluster") as cluster:
        cluster.image(IMAGE, SERVE)
        vlm = await served(cluster)
        cluster.apply(impatient(objects(text)))
        await until(lambda: len(cluster.of("orchestrator")) == 2, cluster)
        reach = {pod.labels["lyncean.dev/run"]: connects(pod, vlm) for pod in cluster.of("orchestrator")}
        assert reach == {"night-acme-marvel": False, "night-served-marvel": True}
        for run in reach:
            assert await cluster.job(f"orchestrator-{run}") == "Complete", logs(cluster)
        with PodApi(cluster) as api:
            env = {**os.environ, "KUBECONFIG": str(api.config(tmp_path / "config"))}
            deletion = [*command, "--delete"]
            deleted = await asyncio.to_thread(subprocess.run, deletion, capture_output=True, text=True, env=env)
            assert deleted.returncode == 0, deleted.stderr
        assert of_kind(cluster.manifests, "NetworkPolicy", "Job", "ConfigMap") == []


@pytest.mark.weekly
@pytest.mark.timeout(900)
async def test_the_suite_of_the_page_is_complete_and_runs_after_it_are(tmp_path: Path) -> None:
    """Three models, one of them in four shards, and one in another namespace; the cluster shuts every run in."""
    page = (REPOSITORY / "docs/kubernetes.md").read_text()
    (example,) = (block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "models:" in block)
    (tmp_path / "night.yaml").write_text(
        f"{re.sub(r'{data: .*}', '{}', example)}options: {{synthetic: true, limit: 8}}\n"
    )
    (weights,) = re.findall(r"weights: ([^,}]+)", example)
    command = [str(BIN / "orchestrator"), "submit", "--suite", str(tmp_path / "night.yaml")]
    done = subprocess.run([*command, "--component=network-policies"], check=True, capture_output=True, text=True)
    async with Cluster(tmp_path / "cluster") as cluster:
        cluster.image(IMAGE, SERVE)
        serve = f"exec {' '.join(SERVE)} --port=50051"
        cluster.image("lyncean-model-server:dev", ["sh", "-c", serve])  # no GPU and no checkpoint are here
        await served(cluster)
        manifests = impatient(objects(done.stdout), 400)
        cluster.apply(of_kind(manifests, "PersistentVolumeClaim"))
        (cluster.claim("lyncean-models") / "qwen").mkdir()
        (cluster.claim("lyncean-models") / "qwen/.lyncean-weights").write_text(f"{weights}\n")
        cluster.apply(manifests)
        jobs = [one["metadata"]["name"] for one in of_kind(manifests, "Job")]
        assert {name for name in jobs if name.startswith("orchestrator-")} == {
            f"orchestrator-night-{model}-{task}"
            for model in ("qwen", "acme", "served")
            for task in ("marvel", "vstar-bench")
        }
        for job in jobs:
            assert await cluster.job(job) == "Complete", logs(cluster)
        cluster.apply(submitted(*TASK, "proprietary", f"--image={IMAGE}", "--run=shut", "--", "--port=50051"))
        assert await cluster.job("orchestrator-shut") == "Complete", logs(cluster)
        cluster.apply(impatient(submitted(*TASK, "gpu", "--endpoint=vlm.serving:50051", "--run=after"), 400))
        assert await cluster.job("orchestrator-after") == "Complete", logs(cluster)


async def test_an_image_is_shut_in_until_its_pod_has_ended(tmp_path: Path) -> None:
    slow = "--max-requests-per-second=0.2"
    async with Cluster(tmp_path / "cluster") as cluster:
        cluster.image(IMAGE, (*SERVE, "--port=50051"))
        cluster.apply(submitted(*TASK, "proprietary", f"--image={IMAGE}", "--run=shut", slow))
        await until(lambda: any("orchestrator" in pod.processes for pod in cluster.of("orchestrator")), cluster)
        (pod,) = cluster.of("orchestrator")
        before: list[bool] = []
        delete = cluster.delete

        def noting(kind: str, name: str) -> None:
            if kind == "NetworkPolicy":
                before.append(pod in cluster.pods)
            delete(kind, name)

        cluster.delete = noting  # type: ignore[method-assign]
        with PodApi(cluster) as api:
            env = {**os.environ, "KUBECONFIG": str(api.config(tmp_path / "config"))}
            command = [str(BIN / "orchestrator"), "submit", "--run=shut", "--delete"]
            deleted = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=env)
            assert deleted.returncode == 0, deleted.stderr
        assert before
        assert not any(before), "a policy went before the pod that it shuts in"
