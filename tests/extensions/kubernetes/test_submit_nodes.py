"""`orchestrator submit --nodes`: a model over several nodes is a LeaderWorkerSet beside the run's Job."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from helpers import kube_api
from helpers.admission import refused
from helpers.kubectl_stages import cluster, ended
from helpers.manifests import REPOSITORY, Manifest, command_line, containers_of, group_templates, needs_kubectl, of_kind
from helpers.submitting import submit, submitted

pytestmark = needs_kubectl
RUN = ("--task=marvel", "--data=/data/marvel", "--model=/models/large")
GPU = "nvidia.com/gpu"
# kubernetes-sigs/lws publishes them in no package: the file names where they are from.
SCHEMAS: dict[str, Any] = json.loads((REPOSITORY / "tests/fixtures/leader_worker_set_v1.json").read_text())["kinds"]
OWN = "<own>"
"""An overlay of a user's, whose engine is a container beside the model server, of another name."""
JOINED = {
    "vllm": ["--nnodes=2", "--node-rank=1", "--master-addr=engine-one-0.engine-one.lyncean"],
    "sglang": ["--nnodes=2", "--node-rank=1", "--dist-init-addr=engine-one-0.engine-one.lyncean:20000"],
}


def own_overlay(folder: Path, image: str) -> str:
    """Writes it, and returns the flag that selects it."""
    path = "/spec/template/spec"
    moved = yaml.safe_load((REPOSITORY / "deploy/overlays/vllm/model-server.yaml").read_text())
    engine = moved["spec"]["template"]["spec"]["initContainers"][1] | {"name": "runner", "image": image}
    del engine["restartPolicy"]
    patch = [
        {"op": "remove", "path": f"{path}/initContainers/1"},
        {"op": "add", "path": f"{path}/containers/-", "value": engine},
    ]
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(REPOSITORY / "deploy/overlays/vllm", folder.resolve())],
        "patches": [{"target": {"kind": "Deployment", "name": "model-server"}, "patch": json.dumps(patch)}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return f"--overlay={folder}"


def group_of(manifests: list[Manifest]) -> tuple[Manifest, Manifest, Manifest]:
    """The LeaderWorkerSet with the specs of its leader's and its workers' pods, all held to their schemas."""
    (group,) = of_kind(manifests, "LeaderWorkerSet")
    jsonschema.validate(group, SCHEMAS["LeaderWorkerSet"])
    assert refused(manifests) == []
    (_, _, leader), (_, _, worker) = group_templates(manifests)
    for role, template in (("leader", leader), ("worker", worker)):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role}, "spec": template["spec"]}
        for version in ("1.31", "1.37"):
            kubernetes_validate.validate(pod, version, strict=True)
    for one in manifests:
        if one["kind"] not in ("LeaderWorkerSet", "ScaledObject", "PodMonitor", "Certificate", "Issuer", "LocalQueue"):
            kubernetes_validate.validate(one, "1.34", strict=True)
    return group, leader["spec"], worker["spec"]


def gpus(pod: Manifest) -> dict[str, int]:
    """GPUs of each container that has some."""
    limits = {one["name"]: one["resources"].get("limits", {}) for one in containers_of(pod)}
    return {name: int(limit[GPU]) for name, limit in limits.items() if GPU in limit}


@pytest.mark.parametrize(
    ("flags", "engine", "computes", "gpus_per_node", "adds"),
    [
        (("--engine=vllm", "--gpus=8"), "vllm", "vllm", 8, ["--tensor-parallel-size=8", "--pipeline-parallel-size=2"]),
        (("--engine=vllm",), "vllm", "vllm", 1, ["--tensor-parallel-size=1", "--pipeline-parallel-size=2"]),
        (("--engine=vllm", "--gpus=4", "--", "-tp", "8"), "vllm", "vllm", 4, ["-tp", "8"]),
        (("--engine=sglang", "--gpus=8"), "sglang", "sglang", 8, ["--tp-size=16"]),
        ((OWN, "--gpus=2"), "vllm", "runner", 2, ["--tensor-parallel-size=2", "--pipeline-parallel-size=2"]),
        (("--engine=vllm", "--gpus=8", "--servers=shared"), "vllm", "vllm", 8, ["--tensor-parallel-size=8"]),
    ],
)
def test_leader_and_workers_are_one_engine(
    flags: tuple[str, ...], engine: str, computes: str, gpus_per_node: int, adds: list[str], tmp_path: Path
) -> None:
    options = [own_overlay(tmp_path, "registry.example/mirror/vllm:2") if flag == OWN else flag for flag in flags]
    more = ("--run=one", "--nodes=2", "--env=K=V", "--mount=acme:/weights", "--memory=200Gi")
    manifests = submitted(*RUN, *more, *options)
    group, leader, worker = group_of(manifests)
    assert group["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert group["spec"]["replicas"] == 1
    assert gpus(leader) == gpus(worker) == {computes: gpus_per_node}, "each node has its GPUs once"
    for job in of_kind(manifests, "Job"):
        assert gpus(job["spec"]["template"]["spec"]) == {}
    (computing,) = (one for one in containers_of(leader) if one["name"] == computes)
    (other,) = worker["containers"]
    assert other["args"] == [*computing["args"], *(["--headless"] if engine == "vllm" else [])]
    name = group["metadata"]["name"]
    variables = {
        "LWS_GROUP_SIZE": "2",
        "LWS_WORKER_INDEX": "1",
        "LWS_LEADER_ADDRESS": f"{name}-0.{name}.lyncean",
    }
    args = command_line(other, variables)[1]
    assert set(adds) <= set(args)
    assert set(JOINED[engine]) <= {word.replace(name, "engine-one") for word in args}
    assert ("--tensor-parallel-size=4" in args) == (gpus_per_node == 4 and "-tp" not in flags)
    for container in (computing, other):
        assert {"name": "K", "value": "V"} in container["env"]
        assert container["resources"]["limits"]["memory"] == "200Gi"
        assert {"/weights", "/dev/shm", "/models"} <= {one["mountPath"] for one in container["volumeMounts"]}
    assert not other.keys() & {"ports", "startupProbe", "readinessProbe", "livenessProbe", "restartPolicy"}
    mounted = {mount["name"] for one in containers_of(worker) for mount in one["volumeMounts"]}
    assert mounted == {volume["name"] for volume in worker["volumes"]}


@pytest.mark.parametrize("servers", ["run", "shared"])
def test_on_one_node_an_engine_in_a_container_of_a_users_has_the_gpus(servers: str, tmp_path: Path) -> None:
    overlay = own_overlay(tmp_path, "registry.example/mirror/vllm:2")
    manifests = submitted(*RUN, "--run=one", overlay, "--gpus=2", f"--servers={servers}", "--env=K=V")
    pods = [one["spec"]["template"]["spec"] for one in of_kind(manifests, "Job", "Deployment")]
    assert [limits for pod in pods if (limits := gpus(pod))] == [{"runner": 2}]
    (runner,) = (one for pod in pods for one in containers_of(pod) if one["name"] == "runner")
    assert runner["args"][-1] == "--tensor-parallel-size=2"
    assert {"name": "K", "value": "V"} in runner["env"]
    assert refused(manifests) == []


def test_the_run_dials_the_leaders_alone() -> None:
    manifests = submitted(*RUN, "--run=one", "--engine=vllm", "--gpus=8", "--nodes=2", "--shards=2")
    (service,) = of_kind(manifests, "Service")
    assert service["metadata"]["name"] == "model-one"
    assert service["spec"]["selector"] == {
        "app.kubernetes.io/name": "model-server",
        "lyncean.dev/run": "one",
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }
    (job,) = (one for one in of_kind(manifests, "Job") if one["metadata"]["name"] == "orchestrator-one")
    assert "--endpoint=model-one:50051" in job["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize("servers", ["run", "shared"])
def test_a_group_is_shut_in_with_open_ways_inside(servers: str) -> None:
    flags = ("--engine=sglang", "--nodes=3", "--component=network-policies", f"--servers={servers}")
    manifests = submitted(*RUN, "--run=one", *flags)
    group, _, _ = group_of(manifests)
    called = group["metadata"]["name"]
    selector = {"matchLabels": {"leaderworkerset.sigs.k8s.io/name": called}}
    (policy,) = (one for one in of_kind(manifests, "NetworkPolicy") if one["metadata"]["name"] == called)
    assert policy["spec"]["podSelector"] == selector
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": selector}]}]
    assert {"to": [{"podSelector": selector}]} in policy["spec"]["egress"]
    assert policy["metadata"]["labels"].items() <= group["metadata"]["labels"].items()


def test_two_runs_share_no_object() -> None:
    flags = (*RUN, "--engine=vllm", "--gpus=8", "--nodes=2", "--component=network-policies", "--component=pdb")
    first, other = (submitted(*flags, f"--run={run}") for run in ("one", "two"))
    shared = {(one["kind"], one["metadata"]["name"]) for one in first}
    shared &= {(one["kind"], one["metadata"]["name"]) for one in other}
    assert {kind for kind, _ in shared} == {"PersistentVolumeClaim", "ServiceAccount"}


def test_servers_that_stay_are_scaled_as_a_group() -> None:
    flags = ("--engine=vllm", "--gpus=8", "--nodes=2", "--servers=shared")
    scaled = submitted(*RUN, "--run=one", *flags, "--component=keda", "--component=monitoring")
    group, _, _ = group_of(scaled)
    assert "replicas" not in group["spec"]
    (target,) = of_kind(scaled, "ScaledObject")
    called = group["metadata"]["name"]
    kind = {"apiVersion": group["apiVersion"], "kind": "LeaderWorkerSet", "name": called}
    assert target["spec"]["scaleTargetRef"] == kind
    assert any(f'pod=~"{called}-.*"' in trigger["metadata"].get("query", "") for trigger in target["spec"]["triggers"])
    group, _, _ = group_of(submitted(*RUN, "--run=one", *flags, "--replicas=3"))
    assert group["spec"]["replicas"] == 3


def test_the_group_waits_in_the_queue_and_not_the_job() -> None:
    manifests = submitted(*RUN, "--run=one", "--engine=vllm", "--gpus=8", "--nodes=2", "--queue=team")
    queued = [one["kind"] for one in manifests if "kueue.x-k8s.io/queue-name" in one["metadata"].get("labels", {})]
    assert queued == ["LeaderWorkerSet"]


def test_delete_frees_the_nodes_first(tmp_path: Path) -> None:
    manifests = submitted(*RUN, "--run=one", "--engine=vllm", "--gpus=8", "--nodes=2")
    (job,) = (one for one in of_kind(manifests, "Job") if one["metadata"]["name"] == "orchestrator-one")
    job["status"] = ended("Complete")
    env = cluster(tmp_path, manifests)
    watched = submit("--run=one", "--watch", env=env)
    assert watched.exit_code == 0, watched.stderr
    assert watched.stdout.endswith("its model servers hold their GPUs until --delete\n")
    assert submit("--run=one", "--delete", env=env).exit_code == 0
    deleted = [line.split()[2] for line in (tmp_path / "calls").read_text().splitlines() if line.startswith("delete")]
    rest = ["services,poddisruptionbudgets", "jobs,pods", "configmaps,networkpolicies"]
    assert deleted == ["leaderworkersets", *rest]


def test_delete_works_where_the_operator_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kubectl apply` has made all but the group, whose kind such a cluster does not know."""
    monkeypatch.delitem(kube_api.KINDS, "leaderworkersets")
    manifests = submitted(*RUN, "--run=one", "--engine=vllm", "--gpus=8", "--nodes=2")
    with kube_api.KubeApi(of_kind(manifests, "Job") + of_kind(manifests, "Service"), {}) as api:
        deleted = submit("--run=one", "--delete", env={"KUBECONFIG": str(api.config(tmp_path / "config"))})
        assert deleted.exit_code == 0, deleted.stderr
        assert not [one for one in api.objects if one["metadata"]["labels"].get("lyncean.dev/run") == "one"]


def test_a_suite_sets_nodes_at_the_model(tmp_path: Path) -> None:
    models = "models: {large: {cluster: {model: /models/large, engine: vllm, gpus: 8, nodes: 2}}}\n"
    (tmp_path / "night.yaml").write_text(f"{models}tasks: {{marvel: {{data: /data/marvel}}}}\n")
    manifests = submitted("--suite", str(tmp_path / "night.yaml"))
    group, leader, _ = group_of(manifests)
    assert group["metadata"]["labels"]["lyncean.dev/suite"] == "night"
    assert gpus(leader) == {"vllm": 8}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ("--gpus=8",),
            "--nodes 2: container model-server runs the model, and on one node alone: give --engine vllm or",
        ),
        (
            (OWN,),
            "runs an engine that is not known here (registry.example/own:1): serve it",
        ),
        (("--engine=vllm", "--gpus=0"), "--nodes 2: container vllm runs the model on GPUs: give --gpus N of each node"),
        (("--image=a/b:1", "--gpus=8"), "--nodes 2 with --image: serve it over nodes yourself and give --endpoint"),
        (("--endpoint=a:1",), "with --endpoint: the servers are there already; leave it out"),
        (("--engine=vllm", "--eject=there"), "--nodes beside --eject: give it with --overlay FOLDER"),
    ],
)
def test_what_runs_on_one_node_is_said(flags: tuple[str, ...], says: str, tmp_path: Path) -> None:
    options = [own_overlay(tmp_path, "registry.example/own:1") if flag == OWN else flag for flag in flags]
    if says.startswith("--nodes beside"):
        result = submit("--nodes=2", *options)
    else:
        model = () if any("image" in flag or "endpoint" in flag for flag in flags) else RUN[2:]
        result = submit(*RUN[:2], *model, "--nodes=2", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "leaderWorkerTemplate", "size"), "2"),
        (("spec", "leaderWorkerTemplate", "sise"), 2),
        (("spec", "leaderWorkerTemplate", "restartPolicy"), "Always"),
        (("spec", "startupPolicy"), "Leader"),
        (("spec", "rolloutStrategy"), {}),
    ],
)
def test_the_schema_finds_mistakes(path: tuple[str, ...], value: Any) -> None:
    (group,) = of_kind(submitted(*RUN, "--run=one", "--engine=vllm", "--nodes=2"), "LeaderWorkerSet")
    holder = group
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(group, SCHEMAS["LeaderWorkerSet"])
