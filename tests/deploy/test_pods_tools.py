"""Servers of tools in a run's pods: a killed one is made anew and the results are a local run's; code stays in."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import HERE, Server, environment
from helpers.escapes import ESCAPES, SECRET
from helpers.escaping import OPTIONS as CODE_OPTIONS
from helpers.manifests import REPOSITORY, of_kind
from helpers.pod_runner import Cluster, missing
from helpers.submitting import submitted

from orchestrator.api import evaluate

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(why := missing()), reason=why or "runs"),
]
IMAGE = "registry.example/calling:1"
MODEL = [sys.executable, str(HERE / "calling_server.py")]
TOOLS = [sys.executable, "-m", "tool_server"]
FILE = REPOSITORY / "examples" / "counter_tools.py"
OPTIONS = {"limit": 24, "max_unparsed": 1}


def logs(cluster: Cluster) -> str:
    return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted((cluster.folder / "logs").iterdir()))


def local_run(folder: Path) -> dict[str, Any]:
    servers = [Server(folder / "model", MODEL).start(), Server(folder / "tools", [*TOOLS, "serve", str(FILE)]).start()]
    try:
        tools = ["zoom", f"grpc:{servers[1].address}"]
        evaluate("vstar_bench", synthetic=True, endpoint=servers[0].address, tools=tools, run=folder / "run", **OPTIONS)
    finally:
        for server in servers:
            server.kill()
    loaded: dict[str, Any] = json.loads((folder / "run" / "results.json").read_text())
    return loaded


async def test_a_run_brings_its_tools_and_goes_on_where_they_are_killed(tmp_path: Path) -> None:
    local = await asyncio.to_thread(local_run, tmp_path / "local")
    manifests = submitted(
        *(f"--image={IMAGE}", "--run=tools", "--task=vstar_bench", "--synthetic", "--limit=24", "--max-unparsed=1"),
        *("--tools=zoom", f"--tool-server=serve {FILE}", "--component=network-policies", "--memory=2Gi", "--gpus=0"),
        *("--max-requests-per-second=8", "--", "--host=0.0.0.0", "--port=50051"),
    )
    (job,) = of_kind(manifests, "Job")
    (tools,) = (one for one in job["spec"]["template"]["spec"]["initContainers"] if one["name"] == "tools-0")
    assert tools["resources"]["limits"]["memory"]
    assert "env" not in tools, "it holds no secret"
    async with Cluster(tmp_path / "cluster") as cluster:
        cluster.image(IMAGE, MODEL)
        cluster.image(tools["image"], TOOLS)
        cluster.apply(manifests)
        log = cluster.claim("lyncean-runs") / "tools" / "responses.jsonl"
        end = time.monotonic() + 200
        while not log.exists() or log.read_bytes().count(b"\n") < 30:
            assert time.monotonic() < end, logs(cluster)
            await asyncio.sleep(0.05)
        (pod,) = cluster.of("orchestrator")
        pod.processes["tools-0"].kill()
        code = f"import socket; socket.create_connection(({pod.address!r}, 50053), 5)"
        outside = [*cluster.outside, sys.executable, "-S", "-c", code]
        assert subprocess.run(outside, capture_output=True, check=False).returncode, "it listens in the pod alone"
        assert await cluster.job("orchestrator-tools") == "Complete", logs(cluster)
        assert json.loads((log.parent / "results.json").read_text()) == local
        assert pod.restarts == 1


async def test_no_code_gets_out_of_a_pods_sandbox(tmp_path: Path) -> None:
    manifests = submitted(
        *(f"--image={IMAGE}", "--run=code", "--task=vstar_bench", "--synthetic", "--limit=1", "--gpus=0"),
        *(f"--tool-server=sandbox {' '.join(CODE_OPTIONS)}", "--component=network-policies", "--memory=2Gi"),
        *("--", "--host=0.0.0.0", "--port=50051"),
    )
    (job,) = of_kind(manifests, "Job")
    (tools,) = (one for one in job["spec"]["template"]["spec"]["initContainers"] if one["name"] == "tools-0")
    async with Cluster(tmp_path / "cluster") as cluster:
        # There is no image of the model: the run's pod waits for it, with its tools.
        cluster.image(tools["image"], TOOLS)
        cluster.apply(manifests)
        end = time.monotonic() + 200
        while not (pods := cluster.of("orchestrator")) or " listens on " not in cluster.log(pods[0], "tools-0"):
            assert time.monotonic() < end, logs(cluster)
            await asyncio.sleep(0.05)
        (pod,) = pods
        (folder,) = (cluster.folder / "volumes" / pod.name).glob("tools-0")
        process = pod.processes["tools-0"].pid
        user = int(Path(f"/proc/{process}/status").read_text().partition("Uid:")[2].split()[0])
        for name, mode in (("token", 0o600), ("open", 0o666)):
            (folder / name).write_text(SECRET)
            os.chown(folder / name, user, user)
            (folder / name).chmod(mode)
        places = {"address": "127.0.0.1:50053", "secret": "/tmp/token", "open": "/tmp/open", "server": process}
        inside = ["ip", "netns", "exec", pod.netns, sys.executable, str(HERE / "escaping.py")]
        argument = json.dumps(places | {"names": list(ESCAPES)})
        tried = await asyncio.create_subprocess_exec(*inside, argument, stdout=subprocess.PIPE, env=environment())
        output, _ = await tried.communicate()
        assert json.loads(output) == {}, logs(cluster)
        assert user
        assert not (folder / "lyncean-escape").exists()
        assert [(folder / name).read_text() for name in ("token", "open")] == [SECRET] * 2
        assert (folder / "token").stat().st_mode & 0o777 == 0o600
        assert pod.restarts == 0
