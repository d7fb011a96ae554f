"""The pod runner holds pods to what a cluster would: memory, policies, order, names that lag, what is not there yet."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import pod_memory, pod_network
from helpers.manifests import Manifest
from helpers.pod_runner import Cluster, Pod, missing

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(why := missing()), reason=why or "runs"),
]
SECURITY = {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532}
CLIENT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
NOTING = """
import http.server, signal, sys
def note(what): open('/notes/order', 'a').write(f'{sys.argv[1]}-{what}\\n')
signal.signal(signal.SIGTERM, lambda *_: sys.exit(note('ends')))
note('starts')
http.server.HTTPServer(('', int(sys.argv[2])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
LOCAL = [sys.executable, "-S", "-c", "import socket; socket.socket().connect_ex(('127.0.0.1', 7000)) and exit(1)"]
SERVER = "import socket; s = socket.create_server(('0.0.0.0', 7000))\nwhile True: s.accept()"


def container(name: str, *command: str, **more: Any) -> Manifest:
    return {
        **{"name": name, "image": "tool:1", "command": list(command), "resources": {"limits": {"memory": "64Mi"}}},
        **{"securityContext": {"readOnlyRootFilesystem": True}, "workingDir": "/", **more},
    }


def python(name: str, code: str, *args: str, **more: Any) -> Manifest:
    return container(name, sys.executable, "-S", "-c", code, *args, **more)


def template(*containers: Manifest, app: str = "app", init: tuple[Manifest, ...] = (), **more: Any) -> Manifest:
    spec = {"securityContext": SECURITY, "containers": list(containers), "initContainers": list(init), **more}
    return {"metadata": {"labels": {"app.kubernetes.io/name": app}}, "spec": spec}


def job(name: str, *containers: Manifest, **more: Any) -> Manifest:
    spec = {"backoffLimit": 0, "template": template(*containers, restartPolicy="Never", **more)}
    return {"kind": "Job", "metadata": {"name": name, "namespace": "lyncean"}, "spec": spec}


def deployment(name: str, *containers: Manifest, replicas: int = 1, **more: Any) -> Manifest:
    spec = {"replicas": replicas, "template": template(*containers, app=name, **more)}
    return {"kind": "Deployment", "metadata": {"name": name, "namespace": "lyncean"}, "spec": spec}


def service(name: str, **spec: Any) -> Manifest:
    ports = [{"name": "main", "port": 80, "targetPort": "main"}]
    chosen = {"selector": {"app.kubernetes.io/name": "server"}, "ports": ports, **spec}
    return {"kind": "Service", "metadata": {"name": name, "namespace": "lyncean"}, "spec": chosen}


def policy(name: str, **spec: Any) -> Manifest:
    return {"kind": "NetworkPolicy", "metadata": {"name": name, "namespace": "lyncean"}, "spec": spec}


def named(*apps: str) -> Manifest:
    return {"podSelector": {"matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "In", "values": apps}]}}


@pytest.fixture
async def cluster(tmp_path: Path) -> Any:
    async with Cluster(tmp_path) as cluster:
        cluster.image("tool:1", [])
        yield cluster


async def until(true: Any) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


@pytest.mark.skipif(bool(why := pod_memory.missing()), reason=why or "runs")
async def test_more_memory_than_the_limit_is_killed_and_said_so(cluster: Cluster) -> None:
    hungry = python("hungry", "b = bytearray(200_000_000)")
    cluster.apply([job("fat", hungry), job("slim", {**hungry, "resources": {"limits": {"memory": "512Mi"}}})])
    assert (await cluster.job("fat")).endswith("hungry exited with 137")
    assert await cluster.job("slim") == "Complete"
    (fat,) = (pod for pod in cluster.past if pod.owner["metadata"]["name"] == "fat")
    assert fat.terminated["hungry"] == (137, "OOMKilled")
    assert 200_000_000 < cluster.peaks["hungry"] < 512 * 2**20


async def test_only_what_a_policy_allows_is_connected(cluster: Cluster) -> None:
    ports = [{"name": "main", "containerPort": 7000}]
    cluster.apply(
        [
            deployment("server", python("server", SERVER, ports=ports)),
            *(service("virtual"), service("headless", clusterIP="None")),
            policy("shut", podSelector={}, policyTypes=["Ingress", "Egress"]),
            policy("in", podSelector=named("server")["podSelector"], ingress=[{"from": [named("friend", "mute")]}]),
            policy(
                "out",
                podSelector=named("friend", "stranger")["podSelector"],
                policyTypes=["Egress"],
                egress=[
                    {"to": [named("server")], "ports": [{"port": "main"}]},
                    {
                        "to": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}],
                        "ports": [{"port": 53, "protocol": "UDP"}],
                    },
                ],
            ),
        ]
    )
    await until(lambda: any(pod.ready for pod in cluster.of("server")))
    (server,) = cluster.of("server")
    inside = ["nsenter", f"--net=/run/netns/{server.netns}", *LOCAL]
    await until(lambda: subprocess.run(inside, check=False).returncode == 0)
    await asyncio.sleep(1.5)  # DNS learns of it
    tries = {
        "by-address": ("friend", server.address, "7000"),
        "by-service": ("friend", "virtual", "80"),
        "by-name": ("friend", "headless.lyncean.svc", "7000"),
        "other-port": ("friend", server.address, "7001"),
        "not-let-in": ("stranger", server.address, "7000"),
        "not-let-out": ("mute", server.address, "7000"),
        "no-names": ("mute", "virtual", "80"),
        "no-world": ("friend", pod_network.NODE, "7000"),
    }
    cluster.apply([job(name, python("try", CLIENT, *args), app=app) for name, (app, *args) in tries.items()])
    ends = {name: await cluster.job(name) == "Complete" for name in tries}
    assert [name for name, well in ends.items() if well] == ["by-address", "by-service", "by-name"]
    errors = {
        pod.owner["metadata"]["name"]: cluster.log(pod, "try").splitlines()[-1] for pod in cluster.past if pod.exit_code
    }
    assert "ConnectionRefusedError" in errors["not-let-in"]
    assert "ConnectionRefusedError" in errors["not-let-out"]
    assert "gaierror" in errors["no-names"]


async def test_names_lag_behind_pods(cluster: Cluster) -> None:
    ports = [{"name": "main", "containerPort": 7000}]
    cluster.apply([deployment("server", python("server", SERVER, ports=ports)), service("all", clusterIP="None")])
    await until(lambda: any(pod.ready for pod in cluster.of("server")))

    async def resolved() -> str:
        code = "import socket; print(socket.gethostbyname('all.lyncean.svc.cluster.local'), end='')"
        (pod,) = cluster.of("server")
        command = ("ip", "netns", "exec", pod.netns, sys.executable, "-S", "-c", code)
        process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-3)
        return (await process.communicate())[0].decode()

    (first,) = cluster.of("server")
    assert await resolved() == "", "it is ready, and its name is not there yet"
    cluster._lag = 3
    await asyncio.sleep(1.5)
    assert await resolved() == first.address
    await cluster.drain(first, grace=0)
    await until(lambda: any(pod.ready for pod in cluster.of("server")))
    (second,) = cluster.of("server")
    assert await resolved() == first.address, "it is gone, and its name is still there"
    await asyncio.sleep(3.5)
    assert await resolved() == second.address != first.address


async def test_containers_start_and_end_in_the_kubelets_order(cluster: Cluster) -> None:
    mounts = {"volumeMounts": [{"name": "notes", "mountPath": "/notes"}]}

    def sidecar(name: str, port: int) -> Manifest:
        # Without a probe the next one is started once this one's process is there, whether or not it has run yet.
        probe = {"httpGet": {"port": port}, "periodSeconds": 0.05, "failureThreshold": 6000}
        return python(name, NOTING, name, str(port), restartPolicy="Always", startupProbe=probe, **mounts)

    def once(name: str) -> Manifest:
        return container(name, "/bin/sh", "-c", f"sleep 0.3; echo {name} >> /notes/order", **mounts)

    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "notes", "namespace": "lyncean"}}
    volumes = [{"name": "notes", "persistentVolumeClaim": {"claimName": "notes"}}]
    init = (sidecar("first", 7001), once("between"), sidecar("second", 7002))
    cluster.apply([claim, job("ordered", once("main"), init=init, volumes=volumes)])
    assert await cluster.job("ordered") == "Complete"
    order = (cluster.claim("notes") / "order").read_text().split()
    assert order == ["first-starts", "between", "second-starts", "main", "second-ends", "first-ends"]
    assert cluster.pods == []


async def test_a_pod_waits_for_what_is_not_there(cluster: Cluster) -> None:
    reads = "import os; print(os.environ['WORD'], open('/tls/key').read())"
    env = [{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "words", "key": "one"}}}]
    mounts = [{"name": "tls", "mountPath": "/tls", "readOnly": True}]
    volumes = [{"name": "tls", "secret": {"secretName": "tls"}}]
    needs = python("needs", reads, env=env, volumeMounts=mounts)
    absent = {**container("absent", "/bin/true"), "image": "registry.example/none:1"}
    cluster.apply([job("needs", needs, volumes=volumes), job("absent", absent)])

    def reason(name: str) -> str:
        pods: list[Pod] = [pod for pod in cluster.pods if name in pod.waiting]
        return pods[0].waiting[name][0] if pods else ""

    await until(lambda: (reason("needs"), reason("absent")) == ("ContainerCreating", "ErrImagePull"))
    cluster.secret("tls", {"key": b"mounted"})
    await until(lambda: reason("needs") == "CreateContainerConfigError")
    cluster.secret("words", {"one": b"named"})
    assert await cluster.job("needs") == "Complete"
    (pod,) = (pod for pod in cluster.past if pod.owner["metadata"]["name"] == "needs")
    assert cluster.log(pod, "needs") == "named mounted\n"
    cluster.delete("Job", "absent")
    await until(lambda: cluster.pods == [])


def test_a_selector_reads_as_kubernetes_does() -> None:
    rules = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "NotIn", "values": ["2"]}]
    assert pod_network.selects({"matchExpressions": rules}, {"a": "1"})
    assert not pod_network.selects({"matchExpressions": rules}, {"a": "1", "b": "2"})
    assert pod_network.selects({}, {})
