"""`orchestrator submit` renders the run that its flags describe."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from helpers.manifests import (
    COMPONENTS,
    DEPLOY,
    OVERLAYS,
    REPOSITORY,
    Manifest,
    command_line,
    environment,
    needs_kubectl,
    of_kind,
)
from helpers.submitting import submit, submitted as rendered

from orchestrator.cli.eval import command as evaluate

pytestmark = needs_kubectl
HERE = ("--overlay=cpu-demo", "--task=vstar_bench", "--run=vstar-bench")
DEMO = (*HERE, "--synthetic")


def arguments(manifests: list[Manifest], job: str, index: int = 0) -> list[str]:
    (manifest,) = (one for one in of_kind(manifests, "Job") if one["metadata"]["name"] == job)
    (main,) = manifest["spec"]["template"]["spec"]["containers"]
    return command_line(main, environment(main, manifests, {"JOB_COMPLETION_INDEX": str(index)}))[1]


def pod_of(manifests: list[Manifest], workload: str) -> Manifest:
    (manifest,) = (one for one in of_kind(manifests, "Deployment", "Job") if one["metadata"]["name"] == workload)
    pod: Manifest = manifest["spec"]["template"]["spec"]
    return pod


def container(pod: Manifest, name: str) -> Manifest:
    chosen: Manifest
    (chosen,) = (one for one in [*pod.get("initContainers", ()), *pod["containers"]] if one["name"] == name)
    return chosen


def test_the_flags_of_eval_come_through_and_mean_the_same() -> None:
    flags = [
        "--limit=7",
        "--method=likelihood",
        "--set=letters=true",
        "--seed=3",
        "--shuffle-options",
        "--data=/data/x y",
    ]
    manifests = rendered(*HERE, *flags, "--run=night")
    args = arguments(manifests, "orchestrator-night")
    assert args[0] == "eval"
    params = evaluate.make_context("eval", args[1:]).params
    wanted = evaluate.make_context("eval", ["--task=vstar_bench", *flags, "--run=/runs/night"]).params
    here = {"endpoint": ("model:50051",), "scorer": "scorer:50052", "patience": 3600.0}
    assert params == {**wanted, **here}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--task=nosuch", "--data=/data/x"), "nosuch"),
        ((*DEMO, "--set=nosuch=1"), "nosuch"),
        ((*DEMO, "--data=/data/x"), "leave one out"),
        (("--task=voila_wd", "--data=/data/x", "--method=likelihood"), "no method 'likelihood'"),
        (("--task=nosuch.yaml", "--data=/data/x"), "nosuch.yaml"),
    ],
)
def test_what_would_end_the_run_on_the_cluster_is_refused_here(flags: tuple[str, ...], says: str) -> None:
    result = submit(*flags)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


TASK = "task: animals\ndata: rows.csv\nid: id\nquestion: question\noptions: [A, B]\nanswer: answer\nanswer_is: letter\n"


@pytest.mark.parametrize("more", [(), ("--shards=3",)])
def test_a_task_file_travels_with_the_run(tmp_path: Path, more: tuple[str, ...]) -> None:
    file = tmp_path / "My_animals.yaml"
    file.write_text(TASK)
    (tmp_path / "rows.csv").write_text("id,question,A,B,answer\n1,What?,cat,dog,A\n")
    refused = submit("--overlay=cpu-demo", f"--task={file}")
    assert refused.exit_code == 2
    assert "its data, rows.csv, is on this machine: give --data its path on the cluster" in refused.stderr
    manifests = rendered("--overlay=cpu-demo", f"--task={file}", "--data=/data/rows.csv", "--run=my-animals", *more)
    (job,) = (one for one in of_kind(manifests, "Job") if one["metadata"]["name"] == "orchestrator-my-animals")
    pod = job["spec"]["template"]["spec"]
    assert {"--task=/tasks/My_animals.yaml", "--data=/data/rows.csv"} <= set(pod["containers"][0]["args"])
    (volume,) = (one for one in pod["volumes"] if one["name"] == "tasks")
    held = {config_map["metadata"]["name"]: config_map["data"] for config_map in of_kind(manifests, "ConfigMap")}
    assert held[volume["configMap"]["name"]] == {"My_animals.yaml": TASK}
    assert {"name": "tasks", "mountPath": "/tasks", "readOnly": True} in pod["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    "flag",
    ["--data=https://user:hush@h/rows.parquet", "--data=s3://b?key=hush", "--env=HUB=https://user:hush@h"],
)
def test_no_password_gets_into_a_manifest(flag: str) -> None:
    result = submit(*HERE, flag)
    assert result.exit_code == 2
    assert "would stand in the manifests" in result.stderr
    assert "hush" not in result.output


def test_replicas_model_names_and_places() -> None:
    manifests = rendered(
        *("--overlay=vllm", "--task=marvel", "--data=/data/marvel", "--model=/models/qwen", "--replicas=5"),
        *("--namespace=team", "--registry=registry.example/x", "--tag=v9", "--servers=shared", "--run=first"),
    )
    (deployment,) = of_kind(manifests, "Deployment")
    assert deployment["spec"]["replicas"] == 5
    pod = deployment["spec"]["template"]["spec"]
    for one in (container(pod, "vllm"), container(pod, "model-server")):
        assert "--model=/models/qwen" in command_line(one, environment(one, manifests))[1]
    assert {manifest["metadata"]["namespace"] for manifest in manifests} == {"team"}
    pods = [pod, pod_of(manifests, "orchestrator-first")]
    images = {one["image"] for pod in pods for one in [*pod["initContainers"], *pod["containers"]]}
    ours = {f"registry.example/x/lyncean-{name}:v9" for name in ("model-server-slim", "scorer", "orchestrator")}
    assert images == {*ours, "registry.example/x/vllm/vllm-openai:v0.33.0"}, "the engine's with its own tag"


def owners(manifests: list[Manifest]) -> set[tuple[str, str]]:
    """Kind and name of what is not the namespace's: claims, accounts and certificates are there for all runs."""
    shared = ("PersistentVolumeClaim", "ServiceAccount", "Issuer", "Certificate")
    return {(one["kind"], one["metadata"]["name"]) for one in manifests if one["kind"] not in shared}


@pytest.mark.parametrize("overlay", ["gpu", "vllm", "proprietary"])
def test_two_models_share_no_name_and_one_label_owns_a_run(overlay: str) -> None:
    flags = ("--task=marvel", "--data=/data/marvel", f"--overlay={overlay}", "--shards=2")
    is_image = overlay == "proprietary"
    models = ("--image=a/one:1", "--image=b/two:1") if is_image else ("--model=/models/a", "--model=/b")
    kinds = (*OWNED, "NetworkPolicy") if is_image else OWNED
    runs = [rendered(*flags, model) for model in models]
    assert not owners(runs[0]) & owners(runs[1])
    for run in runs:
        labels = [one["metadata"]["labels"].get("lyncean.dev/run") for one in run if one["kind"] in kinds]
        assert len(set(labels)) == 1
        assert labels[0].startswith("marvel-")
        assert {kind for kind, _ in owners(run)} == set(kinds), "no Deployment, no Service, no budget"
        pod = pod_of(run, f"orchestrator-{labels[0]}")
        (always,) = {one["restartPolicy"] for one in pod["initContainers"] if one["name"] in ("model-server", "scorer")}
        assert always == "Always"
        assert pod["initContainers"][-1]["name"] == "wait", "the servers have started before"
        assert pod["hostAliases"] == [{"ip": "127.0.0.1", "hostnames": ["model", "scorer"]}]
    again = rendered(*flags, models[0])
    assert again == runs[0], "the same command finds its run"
    kept = [rendered(*flags, model, "--servers=shared") for model in models]
    assert not owners(kept[0]) & owners(kept[1])


OWNED = ("ConfigMap", "Job")


def test_runs_of_one_model_share_servers_and_their_scaling() -> None:
    components = ("--component=keda", "--component=monitoring", "--component=mtls")
    flags = ("--task=marvel", "--data=/data/marvel", "--model=/models/a", "--servers=shared", *components)
    one, two = (rendered(*flags, f"--run={name}") for name in ("one", "two"))
    shared = {name for name in owners(one) & owners(two) if name[0] != "PodMonitor"}
    ((_, name),) = (owner for owner in shared if owner[0] == "Deployment")
    called = name.removeprefix("model-server-")
    assert {kind for kind, _ in shared} == {
        *("ConfigMap", "Deployment", "Job", "PodDisruptionBudget", "ScaledObject", "Service"),
    }
    assert all(called in name for _, name in shared)
    (scaled,) = of_kind(one, "ScaledObject")
    assert scaled["spec"]["scaleTargetRef"]["name"] == name
    pods, query = (trigger["metadata"] for trigger in scaled["spec"]["triggers"])
    assert pods["podSelector"] == f"app.kubernetes.io/name=orchestrator,lyncean.dev/servers={called}"
    assert query["query"] == f'sum(lyncean_in_flight{{pod=~"{name}-.*",namespace="lyncean"}})'
    (certificate,) = (entry for entry in of_kind(one, "Certificate") if entry["metadata"]["name"] == name)
    assert certificate["spec"]["dnsNames"] == [f"model-{called}"]
    secrets = [volume["secret"]["secretName"] for volume in pod_of(one, name)["volumes"] if volume["name"] == "tls"]
    assert secrets == [certificate["spec"]["secretName"]]
    assert f"--endpoint=model-{called}:50051" in pod_of(one, "orchestrator-one")["containers"][0]["args"]


def test_a_pods_servers_ask_of_its_node_what_they_asked_alone(tmp_path: Path) -> None:
    manifests = rendered(*("--task=marvel", "--data=/data/marvel", "--overlay=vllm", "--run=x", "--node-selector=a=b"))
    pod = pod_of(manifests, "orchestrator-x")
    assert pod["nodeSelector"] == {"a": "b"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["topologySpreadConstraints"][0]["labelSelector"] == {"matchLabels": {"lyncean.dev/run": "x"}}
    assert pod["terminationGracePeriodSeconds"] == 180
    started = [one["name"] for one in pod["initContainers"]]
    assert started == ["wait-for-weights", "vllm", "model-server", "scorer", "wait"]
    assert container(pod, "wait-for-weights")["command"][:2] == ["timeout", "21600"]
    engine = container(pod, "vllm")
    assert "startupProbe" not in engine, "the kubelet would wait for good, and hold the GPU"
    assert engine["livenessProbe"]["initialDelaySeconds"] == 1800
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for one in [*pod["initContainers"], *pod["containers"]] for mount in one["volumeMounts"]} == (
        volumes
    )
    (job,) = (one for one in of_kind(manifests, "Job") if one["metadata"]["name"] == "orchestrator-x")
    ends = [rule.get("onExitCodes", {}) for rule in job["spec"]["podFailurePolicy"]["rules"]]
    assert {(rule["containerName"], *rule["values"]) for rule in ends[2:]} == {("wait", 3), ("wait-for-weights", 124)}
    component = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    change = [{"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "wait"}]
    component |= {"patches": [{"target": {"kind": "Deployment", "name": "scorer"}, "patch": json.dumps(change)}]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(component))
    result = submit(*DEMO, f"--component={tmp_path}")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "two containers 'wait' in the run's pods: rename one, or --servers shared" in result.stderr


SERVED = ("--task=marvel", "--data=/data/marvel", "--run=served")


def test_what_is_served_already_is_evaluated_without_a_model_server() -> None:
    manifests = rendered(*SERVED, "--endpoint=a.kserve:9000,b:1", "-e", "[::1]:2", "--shards=2")
    assert not of_kind(manifests, "Deployment", "Service")
    claims = {one["metadata"]["name"] for one in of_kind(manifests, "PersistentVolumeClaim")}
    assert claims == {"lyncean-runs", "lyncean-data"}, "no weights"
    pod = pod_of(manifests, "orchestrator-served")
    assert [one["name"] for one in pod["initContainers"]] == ["scorer", "wait"]
    wanted = {"--endpoint=a.kserve:9000,b:1", "--endpoint=[::1]:2"}
    for one in (pod["containers"][0], pod["initContainers"][-1]):
        assert {word for word in one["args"] if word.startswith("--endpoint")} == wanted


def test_an_openai_compatible_api_is_evaluated_through_a_proxy() -> None:
    manifests = rendered(*SERVED, "--endpoint=https://llm-d.team/v1", "--model=Qwen/Qwen2.5-VL-7B")
    proxy = container(pod_of(manifests, "orchestrator-served"), "model-server")
    args = command_line(proxy, environment(proxy, manifests))[1]
    assert {"--backend=openai", "--base-url=https://llm-d.team/v1", "--model=Qwen/Qwen2.5-VL-7B"} <= set(args)
    assert "nvidia.com/gpu" not in proxy["resources"]["limits"]
    key = {"secretKeyRef": {"name": "lyncean-endpoint", "key": "key", "optional": True}}
    assert {"name": "OPENAI_API_KEY", "valueFrom": key} in proxy["env"]


IMAGE = ("--task=marvel", "--data=/data/marvel", "--image=registry.example/acme/vlm:2.3")


def test_a_run_that_is_shut_in_reaches_its_store_and_what_is_served_elsewhere() -> None:
    image = ("--image=registry.example/vlm:1", "--task=marvel", "--data=/data/marvel")

    def ways(*flags: str) -> list[Manifest]:
        policies = of_kind(rendered(*flags, "--run=night"), "NetworkPolicy")
        return [one for one in policies if one["metadata"]["name"] == "way-out-night"]

    assert ways(*image) == []
    (store,) = ways(*image, "--out=s3://bucket/runs")
    assert store["metadata"]["labels"] == store["spec"]["podSelector"]["matchLabels"] == {"lyncean.dev/run": "night"}
    assert store["spec"]["egress"] == [{"ports": [{"port": 443}]}]
    shut = (*HERE, "--synthetic", "--component=network-policies")
    (served,) = ways(*shut, "--endpoint=a.there:50051,b.there:50055", "--out=gs://bucket/runs")
    assert served["spec"]["egress"] == [{"ports": [{"port": 443}, {"port": 50051}, {"port": 50055}]}]
    (api,) = ways(*shut, "--endpoint=http://there:8000/v1", "--model=m", "--overlay=endpoint")
    assert api["spec"]["egress"] == [{"ports": [{"port": 8000}]}]
    assert ways("--task=marvel", "--endpoint=there:50051", "--out=s3://bucket/runs") == [], "nothing is shut there"


@pytest.mark.parametrize("secured", [False, True])
def test_an_image_is_plugged_by_flags_alone(secured: bool) -> None:
    manifests = rendered(
        *(*IMAGE, "--gpus=4", "--memory=64Gi", "--env=MODE=fast", "--env=LIST=a=b", "--node-selector=pool=big"),
        *(
            "--toleration=team=vision:NoSchedule",
            "--toleration=amd.com/gpu",
            "--pull-secret=acme",
            "--pull-secret=ours",
        ),
        *(["--component=mtls"] if secured else []),
        *("--shards=2", "--run=marvel", "--", "--serve", "--port=50051"),
    )
    pods = {
        workload["metadata"]["name"]: workload["spec"]["template"]["spec"]
        for workload in of_kind(manifests, "Deployment", "Job")
    }
    assert pods.keys() == {"orchestrator-marvel", "merge-marvel"}
    assert all(pod["imagePullSecrets"] == [{"name": "acme"}, {"name": "ours"}] for pod in pods.values())
    pod = pods["orchestrator-marvel"]
    server = container(pod, "model-server")
    assert server["image"] == "registry.example/acme/vlm:2.3"
    assert server["args"] == ["--serve", "--port=50051"], "none of our own server's flags"
    assert server["resources"]["limits"] == {"nvidia.com/gpu": "4", "memory": "64Gi"}
    assert server["resources"]["requests"]["memory"] == "64Gi"
    assert pod["nodeSelector"] == {"pool": "big"}
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"},
        {"key": "amd.com/gpu", "operator": "Exists"},
    ]
    variables = environment(server, manifests)
    assert (variables["MODE"], variables["LIST"]) == ("fast", "a=b")
    names = set(
        re.findall(r"^\| `(LYNCEAN_(?!TOKEN)\w+)` \|", (REPOSITORY / "docs/contract.md").read_text(), re.MULTILINE)
    )
    assert len(names) == 4
    assert names & variables.keys() == (names if secured else set())
    if secured:
        (mounted,) = (mount["mountPath"] for mount in server["volumeMounts"] if mount["name"] == "model-server-tls")
        files = {variables[name] for name in names if name.startswith("LYNCEAN_TLS_")}
        assert files == {f"{mounted}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")}
        assert variables["LYNCEAN_HEALTH_PORT"] == str(server["livenessProbe"]["grpc"]["port"])
    claimed = {claim["metadata"]["name"] for claim in of_kind(manifests, "PersistentVolumeClaim")}
    mounted_claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for one in pods.values()
        for volume in one["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claimed == mounted_claims
    for manifest in manifests:
        if "cert-manager" not in manifest["apiVersion"]:
            kubernetes_validate.validate(manifest, "1.34", strict=True)


def test_resources_of_our_own_server_change_by_flags_too() -> None:
    manifests = rendered(*DEMO, "--gpus=0", "--memory=2Gi")
    server = container(pod_of(manifests, "orchestrator-vstar-bench"), "model-server")
    assert server["resources"]["limits"] == {"memory": "2Gi"}
    assert "--backend=demo" in server["args"]


def downloaded(manifests: list[Manifest]) -> tuple[str, str, str]:
    """The folder that load-weights is for, and what it downloads into it."""
    (job,) = (one for one in of_kind(manifests, "Job") if one["metadata"]["name"].startswith("load-weights-"))
    variables = environment(job["spec"]["template"]["spec"]["containers"][0], manifests)
    return variables["MODEL"], variables["REPOSITORY"], variables["REVISION"]


LLAVA = ("--task=marvel", "--data=/data/marvel", "--model=/models/llava")


def test_weights_are_those_of_the_model_that_is_named() -> None:
    assert downloaded(rendered(*LLAVA)) == ("/models/llava", "", ""), "a folder that is on the volume"
    for overlay in ("gpu", "vllm", "air-gapped"):
        manifests = rendered(*LLAVA, "--weights=team/llava@0f1e", f"--overlay={overlay}", "--shards=2")
        assert downloaded(manifests) == ("/models/llava", "team/llava", "0f1e")


@pytest.fixture
def paired(tmp_path: Path) -> str:
    """An overlay of somebody's own, with a model and its weights."""
    gpu = os.path.relpath(DEPLOY / "overlays/gpu", tmp_path.resolve())
    values = {"lyncean-model": ["MODEL=/models/qwen"], "lyncean-weights": ["REPOSITORY=Qwen/qwen", "REVISION=7a"]}
    generators = [{"name": name, "behavior": "merge", "literals": pairs} for name, pairs in values.items()]
    content = {"namespace": "lyncean", "resources": [gpu], "configMapGenerator": generators}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return str(tmp_path)


def test_an_overlays_pair_stays_one(paired: str) -> None:
    run = ("--task=marvel", "--data=/data/marvel", f"--overlay={paired}")
    qwen = ("/models/qwen", "Qwen/qwen", "7a")
    assert downloaded(rendered(*run)) == qwen
    assert downloaded(rendered(*run, "--model=/models/qwen")) == qwen
    assert downloaded(rendered(*run, "--weights=Qwen/qwen@7a")) == qwen
    both = rendered(*run, "--model=/models/llava", "--weights=team/llava@0f1e")
    assert downloaded(both) == ("/models/llava", "team/llava", "0f1e")
    for flag, says in (
        ("--model=/models/llava", "the overlay would download Qwen/qwen into it: give --weights"),
        ("--weights=team/llava@0f1e", "/models/qwen is the overlay's folder for Qwen/qwen: give --model too"),
        ("--weights=Qwen/qwen@8b", "/models/qwen is the overlay's folder for Qwen/qwen: give --model too"),
    ):
        result = submit(*run, flag)
        assert (result.exit_code, result.stdout) == (2, "")
        assert says in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_runs_side_by_side_share_no_job() -> None:
    one, other = (
        rendered("--task=marvel", "--data=/data/marvel", "--shards=2", f"--run={name}", f"--model=/models/{name}")
        for name in ("one", "other")
    )
    first, second = ({job["metadata"]["name"] for job in of_kind(run, "Job")} for run in (one, other))
    assert first == {"orchestrator-one", "merge-one", "load-weights-one"}
    assert not first & second


def test_shards_with_another_component() -> None:
    manifests = rendered(*DEMO, "--shards=6", "--component=mtls")
    job = next(one for one in of_kind(manifests, "Job") if one["metadata"]["name"] == "orchestrator-vstar-bench")
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (6, 6)
    for index in range(6):
        args = arguments(manifests, "orchestrator-vstar-bench", index)
        assert "--shard=6" in args
        assert [word for word in args if word.startswith("--run=")][-1] == f"--run=/runs/vstar-bench/shard-{index}"
        assert "--tls-ca=/tls/ca.crt" in args
    merge = arguments(manifests, "merge-vstar-bench")
    assert merge[:7] == ["merge", *(f"/runs/vstar-bench/shard-{index}" for index in range(6))]
    assert "--run=/runs/vstar-bench/merged" in merge
    assert "--tls-ca=/tls/ca.crt" in merge


@pytest.mark.parametrize("overlay", [name for name in OVERLAYS if name != "sharded"])
def test_every_overlay_validates(overlay: str) -> None:
    for manifest in rendered("--task=marvel", "--data=/data/marvel", f"--overlay={overlay}", "--shards=2"):
        kubernetes_validate.validate(manifest, "1.34", strict=True)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--overlay=moon",), f"no overlay 'moon': there are {', '.join(OVERLAYS)}"),
        (("--component=moon",), f"no component 'moon': there are {', '.join(COMPONENTS)}"),
        (("--run=A_B",), "--run 'A_B': a name of a-z, 0-9 and '-'"),
        (("--weights=team/llava",), "--weights 'team/llava': REPO@REVISION, for example team/model@COMMIT"),
        (("--weights=a/b@c", "--overlay=cpu-demo"), "overlay 'cpu-demo' has no load-weights, which downloads them"),
        (("--replicas=2", "--component=keda", "--servers=shared"), "KEDA decides the number"),
        (("--replicas=2",), "--replicas is for --servers shared: each pod of a run has a server of its own; --shards"),
        (("--component=keda",), "--component keda is for servers that outlive a run: give --servers shared"),
        (("-e", "a:1", "--servers=shared"), "--servers shared with --endpoint: the servers are there already"),
        (("--image=a/b:1", "--model=/models/x"), "--image with --model or --weights"),
        (("--engine=vllm", "--image=a/b:1"), "--engine with --image: that serves the model; leave one out"),
        (("--engine=vllm", "--overlay=gpu"), "--engine vllm stands in overlay vllm: leave --overlay out"),
        (("--memory=64g",), "--memory '64g': a quantity such as 64Gi"),
        (("--env=MODE",), "--env 'MODE': give NAME=VALUE"),
        (("--env=LYNCEAN_TOKEN=none",), "--env LYNCEAN_TOKEN: it comes from a Secret"),
        (("--out=/data",), "--out /data: give s3://BUCKET/FOLDER, or gs:// or az://"),
        (("--out=s3://u:p@b",), "would stand in the manifests"),
        (("-e", "moon"), "'moon' is not host:port, for example 127.0.0.1:50051, or http://host/v1 for"),
        (("-e", "http://a/v1"), "--endpoint with a URL needs --model"),
        (("-e", "http://a/v1", "-e", "b:1", "--model=m"), "--endpoint http://a/v1: one URL alone"),
        (("-e", "ftp://a/v1", "--model=m"), "--endpoint ftp://a/v1: give http://host/v1 or https://host/v1"),
        (("-e", "http://u:p@a/v1", "--model=m"), "would stand in the manifests"),
        (("-e", "a:1", "--gpus=1"), "arguments after `--`, ...) with --endpoint: the servers are there"),
        (("-e", "http://a/v1", "--model=m", "--image=i:1"), "--image with --"),
        (("--node-selector=pool",), "--node-selector 'pool': give NAME=VALUE"),
        (("--toleration=a:Never",), "--toleration 'a:Never': KEY[=VALUE][:EFFECT]"),
    ],
)
def test_mistakes_are_one_line(flags: tuple[str, ...], says: str) -> None:
    result = submit("--task=marvel", *flags)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_kubectl_it_says_so(tmp_path: Path) -> None:
    result = submit(*DEMO, env={"PATH": str(tmp_path)})
    assert result.exit_code == 2
    assert result.stderr == "Error: kubectl is not installed: `orchestrator submit` renders with its kustomize\n"


@pytest.mark.parametrize(
    ("flags", "instead"),
    [
        (("--scorer", "a:1"), "--scorer is an option of `eval` alone: the cluster's scorer is used"),
        (("--no-tls",), "--no-tls is an option of `eval` alone: --component mtls does that"),
        (
            ("--egress", "hub.example"),
            "--egress: a NetworkPolicy opens addresses and ports, and knows no names: add one",
        ),
        (("--shard", "0/2"), "--shard is an option of `eval` alone: --shards N runs all of them"),
    ],
)
def test_what_the_cluster_decides_is_said(flags: tuple[str, ...], instead: str) -> None:
    result = submit(*DEMO, *flags)
    assert result.exit_code == 2
    assert instead in result.stderr
