"""An image of somebody else's, plugged by flags alone: evaluated, interrupted and brought to an end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import pod_memory
from helpers.manifests import REPOSITORY, Manifest, objects, of_kind
from helpers.pod_runner import Cluster, missing
from helpers.pod_states import PodApi

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(why := missing()), reason=why or "runs"),
]
BIN = Path(sys.executable).parent
IMAGE = "registry.example/acme/vlm:2.3"
TASK = ("--task=vstar_bench", "--synthetic", "--limit=64")
URL = "http://10.244.0.1:443"
STORE = {
    **{"AWS_ENDPOINT_URL": URL, "AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "x"},
    **{"AWS_DEFAULT_REGION": "us-east-1", "LYNCEAN_UPLOAD_SECONDS": "1"},
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the Node example and its modules."""
    folder = tmp_path_factory.mktemp("node")
    for name in ("server.js", "package.json"):
        shutil.copy(REPOSITORY / "examples/node" / name, folder)
    install = ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0"]
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("no node or no npm: apt-get install nodejs npm")
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"`npm install` in examples/node fails: {done.stderr.strip()[:200]}")
    folder.chmod(0o755)
    return folder


def command(node: Path, *args: str) -> list[str]:
    return ["env", f"LYNCEAN_PROTOS={REPOSITORY}/protos", "node", str(node / "server.js"), *args]


def submit(*flags: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    argv = [str(BIN / "orchestrator"), "submit", *flags]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})


def rendered(*flags: str) -> list[Manifest]:
    done = submit(*flags)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def logs(cluster: Cluster) -> str:
    files = sorted((cluster.folder / "logs").iterdir())
    return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in files)


async def local_run(node: Path, folder: Path) -> dict[str, Any]:
    """The results of the same image, evaluated on this machine."""
    server = await asyncio.create_subprocess_exec(*command(node, "--port", "0"), stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        port = (await server.stdout.readline()).decode().strip().rpartition(":")[2]
        argv = (str(BIN / "orchestrator"), "eval", *TASK, f"--endpoint=127.0.0.1:{port}", f"--run={folder}", "--quiet")
        assert await (await asyncio.create_subprocess_exec(*argv)).wait() == 0
    finally:
        server.kill()
        await server.wait()
    loaded: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return loaded


async def in_store(cluster: Cluster, code: str) -> str:
    """Runs a line of Python that asks the `store` at `url`, again and again until it succeeds."""
    code = f"store, url = Store('s3://bucket'), '{URL}/bucket'; {code}"
    code = f"import urllib.request; from orchestrator.run_folder.remote.store import Store; {code}"
    environment = {"PATH": "/usr/sbin:/usr/bin:/bin", **STORE}
    end = time.monotonic() + 120
    while True:
        process = await asyncio.create_subprocess_exec(
            *(*cluster.outside, sys.executable, "-c", code),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        output, stderr = await process.communicate()
        if process.returncode == 0:
            return output.decode()
        assert time.monotonic() < end, f"{stderr.decode()}\n{logs(cluster)}"
        await asyncio.sleep(0.5)


async def test_eight_shards_one_killed_and_one_evicted_end_in_the_local_runs_results(
    tmp_path: Path, node: Path
) -> None:
    pytest.importorskip("moto", reason="no stand-in for S3: pip install -e '.[test]'")
    flags = (*TASK, f"--image={IMAGE}", "--run=acme", "--shards=8", "--gpus=4", "--memory=512Mi", "--env=MODE=fast")
    limit = ("--max-requests-per-second=0.4", "--out=s3://bucket/runs")
    manifests = rendered(*flags, *limit, "--", "--host", "0.0.0.0")
    assert of_kind(manifests, "NetworkPolicy"), "the image is shut in"
    async with Cluster(tmp_path / "cluster") as cluster:
        cluster.image(IMAGE, command(node), node)
        cluster.secret("lyncean-storage", {key: value.encode() for key, value in STORE.items()})
        argv = [*cluster.outside, sys.executable, "-m", "moto.server", "-H", "10.244.0.1", "-p", "443"]
        with (tmp_path / "moto.log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as moto:
            try:
                await in_store(cluster, "urllib.request.urlopen(urllib.request.Request(url, method='PUT')).read()")
                cluster.apply(manifests)
                folders = ", ".join(f"store.names('runs/acme/shard-{index}/responses/')" for index in (0, 1))
                await in_store(cluster, f"all([{folders}]) or exit(1)")
                first, second = (one for one in cluster.of("orchestrator") if one.index in (0, 1))
                first.processes["orchestrator"].kill()
                await cluster.drain(second)
                for job in ("orchestrator-acme", "merge-acme"):
                    assert await cluster.job(job) == "Complete", logs(cluster)
                assert first.exit_code == 137
                assert len([pod for pod in cluster.past if pod.index is not None]) == 10
                assert cluster.pods == [], "something is left running"
                merged = await in_store(cluster, "print(store.get('runs/acme/merged/results.json').decode())")
            finally:
                moto.kill()
    there, here = json.loads(merged), await local_run(node, tmp_path / "here")
    assert there["tasks"] == here["tasks"]


async def test_an_image_that_does_not_exist_is_named_within_the_patience(tmp_path: Path) -> None:
    async with Cluster(tmp_path / "cluster") as cluster:
        cluster.apply(rendered(*TASK, f"--image={IMAGE}", "--run=acme"))
        with PodApi(cluster) as api:
            env = {"KUBECONFIG": str(api.config(tmp_path / "config"))}
            watched = await asyncio.to_thread(submit, "--run=acme", "--watch", "--pod-patience=3", env=env)
            assert watched.returncode == 5, watched.stderr
            assert f"model-server: ErrImagePull: {IMAGE}: not found" in watched.stderr
            assert "no pod of acme has come up within 3 s" in watched.stderr
            deleted = await asyncio.to_thread(submit, "--run=acme", "--delete", env=env)
            assert deleted.returncode == 0, deleted.stderr
        end = time.monotonic() + 60
        while cluster.pods:
            assert time.monotonic() < end, "something is left running"
            await asyncio.sleep(0.1)


async def test_a_server_that_needs_more_memory_than_its_limit_is_named(tmp_path: Path) -> None:
    if why := pod_memory.missing():
        pytest.skip(why)
    async with Cluster(tmp_path / "cluster") as cluster:
        cluster.image(IMAGE, [sys.executable, "-S", "-c", "b = bytearray(500_000_000)"])
        cluster.apply(rendered(*TASK, f"--image={IMAGE}", "--run=acme", "--memory=64Mi"))
        with PodApi(cluster) as api:
            env = {"KUBECONFIG": str(api.config(tmp_path / "config"))}
            watched = await asyncio.to_thread(submit, "--run=acme", "--watch", "--pod-patience=1", env=env)
            assert watched.returncode == 5, watched.stderr
            assert "model-server: CrashLoopBackOff" in watched.stderr
            assert "(OOMKilled: it needed more memory than its limit)" in watched.stderr
            assert await asyncio.to_thread(submit, "--run=acme", "--delete", env=env)
