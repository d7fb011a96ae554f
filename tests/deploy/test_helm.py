"""The Helm chart renders what `orchestrator submit` renders, by Helm's own engine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from helpers import submitting
from helpers.admission import refused
from helpers.manifests import (
    DEPLOY,
    REPOSITORY,
    Manifest,
    containers_of,
    group_templates,
    needs_kubectl,
    objects,
    of_kind,
)

helm = pytest.importorskip("helm_python", reason="no Helm: pip install helm-python-sdk brings its engine")
pytestmark = needs_kubectl
CHART = DEPLOY / "helm" / "lyncean"
IMAGE = {"model": {"image": "registry.example/vlm:2.3"}}
TOLERATED: dict[str, Any] = {"tolerations": []}


def charted(values: dict[str, Any], name: str = "night") -> list[Manifest]:
    rendered = helm.Chart.load(CHART).render(values, name=name, namespace="lyncean")
    return objects(*(text for file, text in rendered.items() if not file.endswith("NOTES.txt")))


def submitted(*flags: str) -> list[Manifest]:
    task = () if any(flag.startswith("--task=") for flag in flags) else ("--task=marvel", "--data=/data/marvel")
    return submitting.submitted("--run=night", "--tag=0.1.0", *task, *flags)


def meaning(job: Manifest, manifests: list[Manifest]) -> Any:
    """A Job without the names of what only it uses; what has names in the order of these, but for containers."""
    text = json.dumps(job["spec"])
    for one in of_kind(manifests, "ConfigMap"):
        text = text.replace(json.dumps(one["metadata"]["name"]), json.dumps("RUN" if "RUN" in one["data"] else "MODEL"))
    spec = json.loads(text)
    pod = spec["template"]["spec"]
    del pod["serviceAccountName"]
    for container in [*pod["initContainers"], *pod["containers"]]:
        for port in container.get("ports", ()):
            port.pop("name", None)
    return _sorted(spec)


def _sorted(node: Any, key: str = "") -> Any:
    if isinstance(node, dict):
        return {name: _sorted(value, name) for name, value in sorted(node.items())}
    if isinstance(node, list):
        ordered = [_sorted(one) for one in node]
        named = key != "initContainers" and ordered and all(isinstance(one, dict) and "name" in one for one in ordered)
        return sorted(ordered, key=lambda one: json.dumps(one)) if named else ordered
    return node


CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "an image by all that it may ask for": (
        {
            "model": {
                "image": "registry.example/vlm:2.3",
                "args": ["--flag", "x: y"],
                "gpus": 4,
                "memory": "64Gi",
                "env": {"K": "V", "N": "1"},
                "nodeSelector": {"pool": "a100"},
                "tolerations": [
                    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "team", "operator": "Equal", "value": "x", "effect": "NoExecute"},
                ],
            },
            "pullSecrets": ["acme"],
            "registry": "registry.example/us",
            "shards": 3,
            "out": "s3://bucket/runs",
        },
        (
            *("--image=registry.example/vlm:2.3", "--gpus=4", "--memory=64Gi", "--env=K=V", "--env=N=1"),
            *("--node-selector=pool=a100", "--toleration=team=x:NoExecute", "--pull-secret=acme", "--shards=3"),
            *("--registry=registry.example/us", "--out=s3://bucket/runs", "--", "--flag", "x: y"),
        ),
    ),
    "an image on the claim": (IMAGE, ("--image=registry.example/vlm:2.3", "--memory=32Gi")),
    "a checkpoint": (
        {"model": {"path": "/models/x", **TOLERATED}},
        ("--overlay", f"{DEPLOY}/base", "--model=/models/x", "--memory=32Gi"),
    ),
    "an API": (
        {"model": {"url": "http://vllm.serving:8000/v1", "name": "team/vlm"}, "shards": 2},
        ("--endpoint=http://vllm.serving:8000/v1", "--model=team/vlm", "--shards=2"),
    ),
    "a task that code of others scores": (
        {
            "model": {"image": "registry.example/vlm:2.3"},
            "eval": [
                *("--task=vlmevalkit:MMStar", "--include-path=/tasks", "--trust-task-code"),
                *("--data=/data/x.tsv", "--set=metrics=vlmevalkit"),
            ],
        },
        (
            *("--image=registry.example/vlm:2.3", "--memory=32Gi", "--task=vlmevalkit:MMStar", "--data=/data/x.tsv"),
            *("--include-path=/tasks", "--trust-task-code", "--set=metrics=vlmevalkit"),
        ),
    ),
    "servers of tools": (
        {
            "model": {"image": "registry.example/vlm:2.3"},
            "eval": ["--task=marvel", "--data=/data/marvel", "--tools=zoom", "--tools=grpc:tools:7000"],
            "tools": [["sandbox", "--max-sessions=32"], ["mcp", "--", "server", "--port=1"]],
        },
        (
            *("--image=registry.example/vlm:2.3", "--memory=32Gi", "--tools=zoom", "--tools=grpc:tools:7000"),
            *("--tool-server=sandbox --max-sessions=32", "--tool-server=mcp -- server --port=1"),
        ),
    ),
    "what is served already": (
        {"model": {"endpoint": "a.there:50051,b.there:50055"}, "out": "gs://bucket/runs"},
        ("--overlay", f"{DEPLOY}/base", "--endpoint=a.there:50051,b.there:50055", "--out=gs://bucket/runs"),
    ),
}


def engine_overlay(folder: Path, engine: str) -> str:
    """Writes an engine's overlay without the download of weights, which the chart leaves to its user."""
    patch = yaml.safe_load((DEPLOY / "overlays" / engine / "model-server.yaml").read_text())
    del patch["spec"]["template"]["spec"]["initContainers"][0]
    (folder / "patch.yaml").write_text(yaml.safe_dump(patch))
    content = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    content |= {"resources": [os.path.relpath(DEPLOY / "base", folder.resolve())], "patches": [{"path": "patch.yaml"}]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return str(folder)


_ALL = {
    "secretEnv": {"A_KEY": "acme:key"},
    "mounts": {"acme": "/weights"},
    "priorityClass": "high",
    "runtimeClass": "nvidia",
    "env": {"K": "V"},
    "memory": "200Gi",
    **TOLERATED,
}
_FLAGS = (
    *("--secret-env=A_KEY=acme:key", "--mount=acme:/weights", "--priority-class=high", "--runtime-class=nvidia"),
    *("--env=K=V", "--memory=200Gi", "--model=/models/x", "--queue=team", "--judge=openai:gpt-x"),
)
_TOP = {"queue": "team", "judges": ["openai:gpt-x"]}


@pytest.mark.parametrize(
    ("engine", "gpus", "args"),
    [
        ("transformers", 1, []),
        ("transformers", 4, ["--dtype=bfloat16"]),
        ("vllm", 1, []),
        ("vllm", 4, ["--max-model-len=65536"]),
        ("vllm", 4, ["--tensor-parallel-size=2", "--pipeline-parallel-size=2"]),
        ("sglang", 2, ["--context-length=4096"]),
    ],
)
def test_engines_mean_what_submit_means(engine: str, gpus: int, args: list[str], tmp_path: Path) -> None:
    overlay = str(DEPLOY / "base") if engine == "transformers" else engine_overlay(tmp_path, engine)
    chart = charted({**_TOP, "model": {"path": "/models/x", "engine": engine, "gpus": gpus, "args": args, **_ALL}})
    flags = (f"--overlay={overlay}", f"--gpus={gpus}", *_FLAGS, "--", *args)
    compare(chart, submitted(*flags))


@pytest.mark.parametrize(
    ("engine", "args"), [("vllm", ["--max-model-len=65536"]), ("vllm", ["-tp", "16"]), ("sglang", [])]
)
def test_several_nodes_mean_what_submit_means(engine: str, args: list[str], tmp_path: Path) -> None:
    model = {"path": "/models/x", "engine": engine, "gpus": 8, "nodes": 2, "args": args, **_ALL}
    chart = charted({**_TOP, "model": model})
    flags = (f"--overlay={engine_overlay(tmp_path, engine)}", "--gpus=8", "--nodes=2", *_FLAGS, "--", *args)
    ours = submitted(*flags)
    for manifests in (chart, ours):
        assert refused([{**one, "metadata": {**one["metadata"], "namespace": "lyncean"}} for one in manifests]) == []
    assert [_pods_of(chart, role) for role in ROLES] == [_pods_of(ours, role) for role in ROLES]
    (group,), (other,) = (of_kind(manifests, "LeaderWorkerSet") for manifests in (chart, ours))
    jsonschema.validate(group, LWS["LeaderWorkerSet"])
    queue = "kueue.x-k8s.io/queue-name"
    assert group["metadata"]["labels"][queue] == other["metadata"]["labels"][queue] == "team"
    assert group["metadata"]["name"] == other["metadata"]["name"] == "engine-night"
    (service,), (other_service,) = (of_kind(manifests, "Service") for manifests in (chart, ours))
    assert service["spec"] == other_service["spec"]
    compare([one for one in chart if one is not group], ours)
    (policy,) = of_kind(chart, "NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"lyncean.dev/run": "night"}}}]


ROLES = ("leader", "worker")
LWS: dict[str, Any] = json.loads((REPOSITORY / "tests/fixtures/leader_worker_set_v1.json").read_text())["kinds"]


def _pods_of(manifests: list[Manifest], role: str) -> Any:
    """The meaning of a group's pods of one role; volumes that no container mounts mean nothing."""
    (template,) = (template for _, name, template in group_templates(manifests) if name == role)
    spec = json.loads(json.dumps(template["spec"]).replace('"name": "model-server-', '"name": "'))
    spec.setdefault("initContainers", [])
    used = {mount["name"] for one in containers_of(spec) for mount in one["volumeMounts"]}
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] in used]
    return meaning({"spec": {"template": {"metadata": template["metadata"], "spec": spec}}}, manifests)


@pytest.mark.parametrize("name", CASES)
def test_it_means_what_submit_means(name: str) -> None:
    values, flags = CASES[name]
    compare(charted(values), submitted(*flags))


def compare(chart: list[Manifest], ours: list[Manifest]) -> None:
    """Holds a chart's objects against those of `submit`."""
    jobs = {one["metadata"]["name"]: one for one in of_kind(ours, "Job")}
    assert {one["metadata"]["name"] for one in of_kind(chart, "Job")} == jobs.keys()
    for job in of_kind(chart, "Job"):
        assert meaning(job, chart) == meaning(jobs[job["metadata"]["name"]], ours)
    data = [{**one["data"]} for one in of_kind(ours, "ConfigMap")]
    for one in of_kind(chart, "ConfigMap"):
        wanted = {key: value for key, value in one["data"].items() if (key, value) != ("SHARDS", "1")}
        assert any(wanted.items() <= values.items() for values in data), f"{one['data']} is in none of {data}"
    for one in chart:
        kubernetes_validate.validate(one, "1.34", strict=True)
        assert one["metadata"]["name"].endswith("night"), "two releases share no object"
        assert one["metadata"]["labels"]["lyncean.dev/run"] == "night"


def test_its_pods_reach_what_they_need_and_nobody_reaches_them() -> None:
    def opened(values: dict[str, Any]) -> list[int]:
        (policy,) = of_kind(charted(values), "NetworkPolicy")
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert "ingress" not in policy["spec"]
        names, *rest = policy["spec"]["egress"]
        assert {port["port"] for port in names["ports"]} == {53}
        return sorted(port["port"] for rule in rest for port in rule["ports"])

    assert opened(IMAGE) == []
    assert opened({**IMAGE, "out": "s3://bucket"}) == [443]
    assert opened({**IMAGE, "eval": ["--task=marvel", "--tools=grpc:tools:7000"]}) == [7000]
    assert opened({"model": {"url": "http://there/v1", "name": "m"}}) == [80]
    assert opened({"model": {"url": "http://there:8000/v1", "name": "m"}}) == [8000]
    assert opened({"model": {"endpoint": "a:50051,b:50051,c:7"}, "out": "az://x/y"}) == [7, 443, 50051]
    assert of_kind(charted({**IMAGE, "networkPolicy": False}), "NetworkPolicy") == []


def test_kueue_admits_the_whole_run() -> None:
    (job,) = of_kind(charted({**IMAGE, "queue": "team"}), "Job")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "exactly one of image, path, url and endpoint, not none"),
        ({"model": {"image": "a:1", "endpoint": "h:1"}}, "not image and endpoint"),
        ({"model": {"endpoint": "h:1", "args": ["x"]}}, "model.args are arguments of model.image, or of the engine"),
        ({"model": {"url": "http://h/v1"}}, "model.url needs model.name"),
        ({"model": {"path": "/models/x", "engine": "vllm", "gpus": 0}}, "model.gpus 0: vllm runs the model on GPUs"),
        ({"model": {"path": "/models/x", "engine": "other"}}, "/model/engine"),
        ({"model": {"path": "/models/x", "nodes": 2}}, "model.nodes: give model.path, and model.engine vllm or sglang"),
        ({"model": {"endpoint": "nowhere"}}, "/model/endpoint"),
        ({**IMAGE, "out": "https://bucket"}, "/out"),
        ({**IMAGE, "shards": 0}, "/shards"),
        ({**IMAGE, "eval": ["--task=marvel", "--run=/runs/x"]}, "/eval/1"),
        ({**IMAGE, "eval": ["--limit=3"]}, "/eval"),
        ({**IMAGE, "colour": "red"}, "colour"),
    ],
)
def test_mistakes_are_named_before_anything_is_applied(values: dict[str, Any], says: str) -> None:
    with pytest.raises(helm.HelmError, match=says):
        charted(values)


def test_helm_lints_and_packages_it(tmp_path: Path) -> None:
    report = helm.lint(CHART, values=IMAGE, strict=True)
    assert report["errors"] == []
    assert [message for message in report["messages"] if message["severity"] > 1] == []
    archive = Path(helm.Chart.load(CHART).save(tmp_path))
    assert helm.Chart.load_archive(archive.read_bytes()).version == "0.1.0"
