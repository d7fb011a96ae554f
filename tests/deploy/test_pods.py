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
from helpers import submitting
from helpers.certificates import issue
from helpers.manifests import Manifest, objects, of_kind, rendered, with_components
from helpers.pod_runner import Cluster, Pod, missing

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(why := missing()), reason=why or "runs"),
]
BIN = Path(sys.executable).parent


def results(run: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run / "results.json").read_text())
    return loaded


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
    end = time.monotonic() + 300
    while not (run / "responses.jsonl").exists() or (run / "responses.jsonl").read_bytes().count(b"\n") < count:
        assert time.monotonic() < end, f"no {count} answers\n{logs(cluster)}"
        await asyncio.sleep(0.05)


CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"


async def connects(source: Pod, address: str, port: int) -> bool:
    """Returns True if a connection from a pod succeeds."""
    command = ("ip", "netns", "exec", source.netns, sys.executable, "-S", "-c", CONNECT, address, str(port))
    process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
    _, stderr = await process.communicate()
    assert process.returncode == 0 or b"ConnectionRefusedError" in stderr, stderr
    return process.returncode == 0


async def test_the_demo_runs_over_mutual_tls_to_a_report_with_a_local_runs_results(
    tmp_path: Path, local: dict[str, Any]
) -> None:
    manifests = with_components("cpu-demo", "network-policies", "mtls")
    async with Cluster(tmp_path) as cluster:
        for name, files in issue(of_kind(manifests, "Certificate")).items():
            cluster.secret(name, files)
        cluster.apply(manifests)
        assert await cluster.job("orchestrator") == "Complete", logs(cluster)
        run = cluster.claim("lyncean-runs") / "demo"
        assert results(run) == local
        assert (run / "report.html").stat().st_uid == 65532
        assert json.loads((run / "manifest.json").read_text())["replicas"] != []
        assert not [pod.name for pod in cluster.pods if pod.restarts]
        for app in ("model-server", "scorer"):
            assert cluster.probes[app, "startup", True]
            assert cluster.probes[app, "readiness", True]
        (scorer,), (model, other) = cluster.of("scorer"), cluster.of("model-server")
        assert await connects(scorer, model.address, 50051), "a judge"
        for source, target, port in ((scorer, model, 9090), (model, scorer, 50052), (model, other, 50051)):
            assert not await connects(source, target.address, port), f"{source.name} to {target.name}:{port}"


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


def submitted(*flags: str) -> list[Manifest]:
    """Objects that `orchestrator submit` renders for the demo."""
    return submitting.submitted("--overlay=cpu-demo", "--task=vstar_bench", "--synthetic", "--limit=40", *flags)


async def test_runs_bring_their_servers_and_leave_nothing(tmp_path: Path, local: dict[str, Any]) -> None:
    slow = "--max-requests-per-second=2"
    async with Cluster(tmp_path) as cluster:
        secured = submitted("--run=one", "--shards=2", slow, "--component=mtls")
        for name, files in issue(of_kind(secured, "Certificate")).items():
            cluster.secret(name, files)
        cluster.apply(secured)
        cluster.apply(submitted("--run=other", "--model=constant:A"))
        runs = cluster.claim("lyncean-runs")
        await answered(cluster, runs / "one/shard-0", 4)
        await answered(cluster, runs / "one/shard-1", 4)
        first, second = (pod for pod in cluster.of("orchestrator") if pod.index is not None)
        first.processes["model-server"].kill()
        await cluster.drain(second)
        assert second.exit_code == 3, logs(cluster)
        for job in ("orchestrator-one", "merge-one", "orchestrator-other"):
            assert await cluster.job(job) == "Complete", logs(cluster)
        assert cluster.pods == [], "a server outlives its run"
        assert first.restarts == 1
        assert results(runs / "one/merged") == local
        assert json.loads((runs / "other/manifest.json").read_text())["model"]["model_name"] == "demo-constant-A"


async def test_a_shard_that_failed_goes_on_once_its_job_is_there_again(tmp_path: Path, local: dict[str, Any]) -> None:
    async with Cluster(tmp_path) as cluster:
        runs = cluster.claim("lyncean-runs")
        (runs / "one").mkdir(parents=True)
        (runs / "one").chmod(0o777)
        (runs / "one/shard-1").write_text("in the way of a folder")
        cluster.apply(submitted("--run=one", "--shards=2"))
        assert (await cluster.job("orchestrator-one")).endswith("exited with 2"), logs(cluster)
        # The other shard was ended with the Job, complete or not.
        log = runs / "one/shard-0/responses.jsonl"
        answers = log.read_bytes() if log.exists() else b""
        (runs / "one/shard-1").unlink()
        cluster.again("orchestrator-one")
        for job in ("orchestrator-one", "merge-one"):
            assert await cluster.job(job) == "Complete", logs(cluster)
        assert results(runs / "one/merged") == local
        assert log.read_bytes().startswith(answers), "what was answered is not asked again"


async def test_servers_that_do_not_come_up_end_the_run(tmp_path: Path) -> None:
    manifests = submitted("--run=none", "--model=nosuch")
    (job,) = of_kind(manifests, "Job")
    (wait,) = (one for one in job["spec"]["template"]["spec"]["initContainers"] if one["name"] == "wait")
    assert wait["args"][-1] == "--patience=2700"
    wait["args"][-1] = "--patience=3"
    async with Cluster(tmp_path) as cluster:
        cluster.apply(manifests)
        assert (await cluster.job("orchestrator-none")).endswith("exited with 3")
        assert cluster.pods == []
        assert "not there within 3 s: a model server at model:50051" in logs(cluster)


def serving_an_api(manifests: list[Manifest], address: str) -> list[Manifest]:
    """A Deployment and its Service of the model at `address` behind an OpenAI-compatible API."""
    deployment, service = (json.loads(json.dumps(of_kind(manifests, kind)[0])) for kind in ("Deployment", "Service"))
    labels = {"app.kubernetes.io/name": "api"}
    template = deployment["spec"]["template"]
    deployment["metadata"]["name"] = service["metadata"]["name"] = "api"
    template["metadata"]["labels"] = service["spec"]["selector"] = labels
    deployment["spec"]["replicas"] = 1
    (container,) = template["spec"]["containers"]
    for kind in ("startup", "readiness", "liveness"):
        del container[f"{kind}Probe"]
    container["args"] = ["http", f"--endpoint={address}", "--host=0.0.0.0", "--port=8000"]
    return [deployment, service]


async def test_servers_that_stay_are_shared_and_evaluated_by_their_address(
    tmp_path: Path, local: dict[str, Any]
) -> None:
    async with Cluster(tmp_path) as cluster:
        manifests = submitted("--run=one", "--servers=shared")
        cluster.apply(manifests)
        cluster.apply(submitted("--run=two", "--servers=shared"))
        (service,) = of_kind(manifests, "Service")
        address = f"{service['metadata']['name']}.lyncean:50051"
        cluster.apply(submitted("--run=three", f"--endpoint={address}"))
        cluster.apply(serving_an_api(manifests, address))
        flags = ["--overlay=endpoint", "--endpoint=http://api.lyncean:8000/v1", "--model=demo-no-weights", "--run=four"]
        # Its claim is larger than the demo's: a claim that is there stays as it is.
        cluster.apply([one for one in submitted(*flags) if one["metadata"]["name"] != "lyncean-runs"])
        for run in ("one", "two", "three", "four"):
            assert await cluster.job(f"orchestrator-{run}") == "Complete", logs(cluster)
            content = results(cluster.claim("lyncean-runs") / run)
            metrics = {name: task["metrics"] for name, task in content["tasks"].items()}
            assert metrics == {name: task["metrics"] for name, task in local["tasks"].items()}
        assert sorted(pod.labels["app.kubernetes.io/name"] for pod in cluster.pods) == ["api", *["model-server"] * 2]


STORE = {
    **{"AWS_ENDPOINT_URL": "http://10.244.0.1:5000", "AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "x"},
    **{"AWS_DEFAULT_REGION": "us-east-1", "LYNCEAN_UPLOAD_SECONDS": "1"},
}


async def test_shards_meet_in_an_object_store(tmp_path: Path, local: dict[str, Any]) -> None:
    pytest.importorskip("moto", reason="no stand-in for S3: pip install -e '.[test]'")
    manifests = submitted("--run=one", "--shards=2", "--out=s3://bucket/runs", "--max-requests-per-second=4")
    assert not of_kind(manifests, "PersistentVolumeClaim")
    async with Cluster(tmp_path) as cluster:
        command = [*cluster.outside, sys.executable, "-m", "moto.server", "-H", "10.244.0.1", "-p", "5000"]
        with (tmp_path / "moto.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as moto:
            try:
                await in_store(cluster, "urllib.request.urlopen(urllib.request.Request(url, method='PUT')).read()")
                cluster.secret("lyncean-storage", {key: value.encode() for key, value in STORE.items()})
                cluster.apply(manifests)
                await in_store(cluster, "assert store.names('runs/one/shard-0/responses/')")
                (pod,) = (one for one in cluster.of("orchestrator") if one.index == 0)
                await cluster.drain(pod)
                assert pod.exit_code == 3, logs(cluster)
                for job in ("orchestrator-one", "merge-one"):
                    assert await cluster.job(job) == "Complete", logs(cluster)
                merged = await in_store(cluster, "print(store.get('runs/one/merged/results.json').decode())")
                assert json.loads(merged) == local
            finally:
                moto.kill()


async def in_store(cluster: Cluster, code: str) -> str:
    """Runs a line of Python that asks the `store` at `url`, again and again until it succeeds."""
    program = f"""
import time, urllib.request
from orchestrator.run_folder.remote.store import Store
store, url, end = Store("s3://bucket"), "http://10.244.0.1:5000/bucket", time.monotonic() + 300
while True:
    try:
        {code}
        break
    except Exception:
        if time.monotonic() > end:
            raise
        time.sleep(0.2)
"""
    command = [*cluster.outside, sys.executable, "-c", program]
    environment = {"PATH": "/usr/sbin:/usr/bin:/bin", **STORE}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, stderr = await process.communicate()
    assert process.returncode == 0, f"{stderr.decode()}\n{logs(cluster)}"
    return output.decode()


SUITE = """\
models:
  words: {model: "demo:hash", cluster: {overlay: cpu-demo}}
  always-a: {model: "demo:constant:A", cluster: {overlay: cpu-demo, shards: 2}}
tasks: [vstar_bench, marvel, VisualPuzzles]
options: {synthetic: true, limit: 6}
"""
KUBECTL = """#!{python}
import pathlib, shutil, sys
words = sys.argv[1:]
if words[0] == "get":
    print(pathlib.Path({objects!r}).read_text())
elif words[0] == "cp":
    shutil.copytree({claim!r} + words[2].partition(":/runs")[2], words[3])
"""


@pytest.mark.weekly
@pytest.mark.timeout(600)
async def test_a_suite_of_two_models_by_three_tasks_ends_in_one_leaderboard(tmp_path: Path) -> None:
    (tmp_path / "night.yaml").write_text(SUITE)
    command = [str(BIN / "orchestrator"), "submit", "--suite", "night.yaml"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    manifests = objects(done.stdout)
    jobs = of_kind(manifests, "Job")
    assert len(jobs) == 3 + 2 * 3, "three runs, and three of two shards with their merges"
    async with Cluster(tmp_path / "cluster") as cluster:
        cluster.apply(manifests)
        for job in jobs:
            assert await cluster.job(job["metadata"]["name"]) == "Complete", logs(cluster)
        assert cluster.pods == [], "a server outlives its run"
        for job in jobs:
            job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        (tmp_path / "objects").write_text(json.dumps({"items": manifests}))
        places = {"objects": str(tmp_path / "objects"), "claim": str(cluster.claim("lyncean-runs"))}
        (tmp_path / "kubectl").write_text(KUBECTL.format(python=sys.executable, **places))
        (tmp_path / "kubectl").chmod(0o755)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
        got = subprocess.run([*command, "--get", "got"], check=True, capture_output=True, cwd=tmp_path, env=environment)
        assert got.stdout.endswith(b"got/leaderboard.html\n")
        argv = [str(BIN / "orchestrator"), "eval", "--suite", "night.yaml", "--run", "here", "--quiet"]
        subprocess.run(argv, check=True, cwd=tmp_path, env=environment)
    there, here = (json.loads((tmp_path / folder / "leaderboard.json").read_text()) for folder in ("got", "here"))
    assert there == here
    assert {cell["state"] for row in here["tables"][0]["models"] for cell in row["tasks"].values()} == {"complete"}
