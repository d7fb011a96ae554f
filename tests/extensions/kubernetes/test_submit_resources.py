"""Flags of `orchestrator submit` reach the container that runs the model, or are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helpers.manifests import REPOSITORY, Manifest, command_line, containers_of, environment, needs_kubectl, of_kind
from helpers.submitting import submit, submitted

from scorer.cli.serve import command as scorer_serve

pytestmark = needs_kubectl
RUN = ("--task=marvel", "--data=/data/marvel", "--run=one")
PAGE = "(docs/kubernetes.md, A model over several GPUs)"
COMPONENT = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}


def containers(manifests: list[Manifest]) -> dict[str, Manifest]:
    """The containers of the run's pods by name."""
    (job,) = (one for one in of_kind(manifests, "Job") if one["metadata"]["name"] == "orchestrator-one")
    return {one["name"]: one for one in containers_of(job["spec"]["template"]["spec"])}


def refused(*flags: str) -> str:
    """Returns the line that refuses flags."""
    result = submit(*RUN, *flags)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line.removeprefix("Error: ")


GPU, MEMORY = "nvidia.com/gpu", "memory"
OWN_ENGINE = "<own>"
"""An overlay of a user's, whose engine is another container of another name."""


def own_overlay(folder: Path, image: str = "registry.example/serving:1") -> str:
    """Writes an overlay whose engine stands in the container `runner`, and returns the flag that selects it."""
    names = [
        {"op": "replace", "path": "/spec/template/spec/initContainers/1/name", "value": "runner"},
        {"op": "replace", "path": "/spec/template/spec/initContainers/1/image", "value": image},
    ]
    patch = {"target": {"kind": "Deployment", "name": "model-server"}, "patch": json.dumps(names)}
    base = os.path.relpath(REPOSITORY / "deploy/overlays/vllm", folder.resolve())
    content = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [base]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({**content, "patches": [patch]}))
    return f"--overlay={folder}"


@pytest.mark.parametrize(
    ("flags", "computes", "limits", "adds"),
    [
        (("--gpus=4",), "model-server", {GPU: "4", MEMORY: "32Gi"}, ["--device=auto"]),
        (("--gpus=1",), "model-server", {GPU: "1", MEMORY: "32Gi"}, ["--device=cuda"]),
        (("--gpus=0",), "model-server", {MEMORY: "32Gi"}, ["--device=cpu"]),
        (("--overlay=air-gapped", "--gpus=2"), "model-server", {GPU: "2", MEMORY: "32Gi"}, ["--device=auto"]),
        (("--engine=transformers", "--gpus=2"), "model-server", {GPU: "2", MEMORY: "32Gi"}, ["--device=auto"]),
        (
            ("--model-option=dtype=bfloat16", "--model-option=trust-remote-code", "--", "--max-pixels=4096"),
            "model-server",
            {GPU: "1", MEMORY: "32Gi"},
            ["--dtype=bfloat16", "--trust-remote-code", "--max-pixels=4096"],
        ),
        (("--engine=vllm",), "vllm", {GPU: "1", MEMORY: "48Gi"}, []),
        (("--overlay=vllm", "--gpus=4"), "vllm", {GPU: "4", MEMORY: "48Gi"}, ["--tensor-parallel-size=4"]),
        (("--engine=vllm", "--gpus=1", "--memory=9Gi"), "vllm", {GPU: "1", MEMORY: "9Gi"}, []),
        (
            ("--engine=vllm", "--gpus=8", "--", "--tensor-parallel-size=4", "--data-parallel-size=2"),
            "vllm",
            {GPU: "8", MEMORY: "48Gi"},
            ["--tensor-parallel-size=4", "--data-parallel-size=2"],
        ),
        (
            ("--engine=vllm", "--gpus=2", "--servers=shared", "--", "--max-model-len=65536"),
            "vllm",
            {GPU: "2", MEMORY: "48Gi"},
            ["--tensor-parallel-size=2", "--max-model-len=65536"],
        ),
        (("--engine=sglang", "--gpus=4"), "sglang", {GPU: "4", MEMORY: "48Gi"}, ["--tp-size=4"]),
        ((OWN_ENGINE, "--memory=200Gi"), "runner", {GPU: "1", MEMORY: "200Gi"}, []),
        ((OWN_ENGINE, "--gpus=2", "--", "-tp", "2"), "runner", {GPU: "2", MEMORY: "48Gi"}, ["-tp", "2"]),
        (("--image=a/b:1", "--gpus=4", "--", "--x"), "model-server", {GPU: "4", MEMORY: "32Gi"}, ["--x"]),
        (("--endpoint=http://there/v1", "--model=m", "--memory=4Gi"), "model-server", {MEMORY: "4Gi"}, []),
    ],
)
def test_flags_reach_the_container_that_computes(
    flags: tuple[str, ...], computes: str, limits: dict[str, str], adds: list[str], tmp_path: Path
) -> None:
    options = [own_overlay(tmp_path) if flag == OWN_ENGINE else flag for flag in flags]
    manifests = submitted(*RUN, "--env=K=V", "--secret-env=A_KEY=acme:key", "--mount=acme:/weights", *options)
    (workload,) = (
        one for one in of_kind(manifests, "Deployment", "Job") if computes in map(_name, _all_containers(one))
    )
    by_name = {one["name"]: one for one in _all_containers(workload)}
    container = by_name[computes]
    assert container["resources"]["limits"] == limits
    assert container["args"][len(container["args"]) - len(adds) :] == adds or set(adds) <= set(container["args"])
    assert {"name": "K", "value": "V"} in container["env"]
    assert {"name": "A_KEY", "valueFrom": {"secretKeyRef": {"name": "acme", "key": "key"}}} in container["env"]
    (mount,) = (one for one in container["volumeMounts"] if one["mountPath"] == "/weights")
    (volume,) = (one for one in workload["spec"]["template"]["spec"]["volumes"] if one["name"] == mount["name"])
    assert volume["persistentVolumeClaim"] == {"claimName": "acme", "readOnly": True}
    others = [one for name, one in by_name.items() if name != computes]
    assert not any(GPU in one["resources"]["limits"] for one in others), "each GPU is counted once"
    assert not any("A_KEY" in json.dumps(one) for one in others)
    if "shm" in json.dumps(container) or (int(limits.get(GPU, "0")) > 1 and computes != "model-server"):
        (shared,) = (one for one in container["volumeMounts"] if one["mountPath"] == "/dev/shm")
        (volume,) = (one for one in workload["spec"]["template"]["spec"]["volumes"] if one["name"] == shared["name"])
        assert volume["emptyDir"]["medium"] == "Memory"
    for manifest in of_kind(manifests, "Job", "Deployment"):
        kubernetes_validate.validate(manifest, "1.34", strict=True)


def _all_containers(workload: Manifest) -> list[Manifest]:
    return list(containers_of(workload["spec"]["template"]["spec"]))


def _name(container: Manifest) -> str:
    return str(container["name"])


def test_an_image_on_several_gpus_has_shared_memory() -> None:
    (one,) = (
        one
        for one in containers(submitted(*RUN, "--image=a/b:1", "--gpus=4"))["model-server"]["volumeMounts"]
        if one["mountPath"] == "/dev/shm"
    )
    assert one["name"] == "model-server-shared-memory"
    alone = containers(submitted(*RUN, "--image=a/b:1", "--gpus=1"))["model-server"]
    assert "/dev/shm" not in json.dumps(alone)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            (OWN_ENGINE, "--gpus=4"),
            "--gpus 4: container runner runs an engine that is not known here (registry.example/serving:1): give its "
            f"option of tensor parallelism after `--` {PAGE}",
        ),
        (("--engine=vllm", "--gpus=0"), "--gpus 0: container vllm runs the model on GPUs: leave it out"),
        (
            ("--engine=vllm", "--model-option=dtype=bfloat16"),
            "--model-option dtype=bfloat16: container vllm runs the model, and is not our server: give its own "
            "arguments after `--`",
        ),
        (
            ("--model-option=port=1",),
            "--model-option port=1: the run itself decides --port of the server that it starts",
        ),
        (
            ("--gpus=4", "--", "--device=cuda:1"),
            "--gpus 4: container model-server uses one GPU (--device=cuda:1): leave out --device=cuda:1, or --gpus",
        ),
        (
            ("--env=OPENAI_API_KEY=sk-abcdefghijklmnop",),
            "--env OPENAI_API_KEY: its value looks like a key, and would stand in the manifests: put it into a Secret, "
            "and give --secret-env OPENAI_API_KEY=SECRET:KEY",
        ),
        (
            ("--env=X=hf_abcdefghijklmnop",),
            "--env X: its value looks like a key, and would stand in the manifests: put it into a Secret, and give "
            "--secret-env X=SECRET:KEY",
        ),
        (("--secret-env=A=b",), "--secret-env A=b: give NAME=SECRET:KEY, a Secret of the namespace and a key of it"),
        (("--mount=acme",), "--mount acme: give CLAIM:/PATH, a claim of the namespace and a folder"),
        (
            ("--mount=acme:/models",),
            "--mount acme:/models: container model-server has a volume at /models: choose another folder",
        ),
    ],
)
def test_what_would_be_wrong_is_refused(flags: tuple[str, ...], says: str, tmp_path: Path) -> None:
    options = [own_overlay(tmp_path) if flag == OWN_ENGINE else flag for flag in flags]
    assert refused(*options) == says


@pytest.mark.parametrize("image", ["registry.example/mirror/vllm:2", "vllm/vllm-openai@sha256:" + "0" * 64])
def test_an_engine_is_known_by_its_image(image: str, tmp_path: Path) -> None:
    by_name = containers(submitted(*RUN, own_overlay(tmp_path, image), "--gpus=2"))
    assert by_name["runner"]["image"] == image
    assert by_name["runner"]["args"][-1] == "--tensor-parallel-size=2"


def test_classes_and_queue_are_those_of_the_run() -> None:
    manifests = submitted(*RUN, "--priority-class=high", "--runtime-class=nvidia", "--queue=team")
    (job,) = (one for one in of_kind(manifests, "Job") if one["metadata"]["name"] == "orchestrator-one")
    pod = job["spec"]["template"]["spec"]
    assert (pod["priorityClassName"], pod["runtimeClassName"]) == ("high", "nvidia")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"


@pytest.mark.parametrize("servers", ["run", "shared"])
def test_a_judge_is_an_option_as_for_eval(servers: str) -> None:
    manifests = submitted(
        *(*RUN, f"--servers={servers}", "--judge=openai:gpt-x@https://api.example/v1", "--judge-reads=all"),
        "--component=network-policies",
    )
    scorer = containers(manifests)["scorer"]
    args = command_line(scorer, environment(scorer, manifests))[1]
    params = scorer_serve.make_context("serve", args[1:]).params
    assert params["judges"] == ("openai:gpt-x@https://api.example/v1",)
    assert params["judge_reads"] == "all"
    key = {"secretKeyRef": {"name": "lyncean-judge", "key": "key", "optional": True}}
    assert {"name": "LYNCEAN_JUDGE_KEY", "valueFrom": key} in scorer["env"]
    (way,) = (one for one in of_kind(manifests, "NetworkPolicy") if one["metadata"]["name"] == "way-out-one")
    assert {"port": 443} in way["spec"]["egress"][0]["ports"]


@pytest.mark.parametrize(
    ("flags", "backend"),
    [(("--overlay=cpu-demo",), "demo"), (("--endpoint=http://there/v1", "--model=m"), "openai")],
)
def test_gpus_of_a_server_that_uses_none_are_refused(flags: tuple[str, ...], backend: str) -> None:
    line = refused(*flags, "--gpus=1")
    assert line == f"--gpus 1: container model-server uses no GPU (--backend={backend}): leave it out"


def component(folder: Path, *operations: dict[str, Any]) -> str:
    """Writes a component that changes the model servers, and returns the flag that adds it."""
    patches = [{"target": {"kind": "Deployment", "name": "model-server"}, "patch": json.dumps(operations)}]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({**COMPONENT, "patches": patches}))
    return f"--component={folder}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--backend=transformers"], ""),
        (["serve", "--backend", "transformers", "--device", "auto"], ""),
        (["serve", "--backend=transformers", "--device=auto", "--deterministic", "--device=cuda:1"], "--device=cuda:1"),
        (["serve", "--backend=transformers", "--device=cpu"], "uses no GPU (--device=cpu)"),
        (["serve", "--backend=transformers", "--device=$(DEVICE)"], ""),
        (["run", "--backend=transformers", "--device=cuda"], ""),
        ([], ""),
    ],
)
def test_the_arguments_of_an_own_component_decide(tmp_path: Path, arguments: list[str], says: str) -> None:
    path = "/spec/template/spec/containers/0/args"
    flags = (component(tmp_path, {"op": "replace", "path": path, "value": arguments}), "--gpus=4")
    if says:
        assert says in refused(*flags)
    else:
        server = containers(submitted(*RUN, *flags))["model-server"]
        assert server["resources"]["limits"]["nvidia.com/gpu"] == "4"


def test_an_engine_without_devices_is_found_by_its_address(tmp_path: Path) -> None:
    gone = {"op": "remove", "path": "/spec/template/spec/initContainers/1/resources/limits/nvidia.com~1gpu"}
    by_name = containers(submitted(*RUN, "--overlay=vllm", component(tmp_path, gone), "--memory=200Gi"))
    assert by_name["vllm"]["resources"]["limits"] == {"memory": "200Gi"}
    assert by_name["model-server"]["resources"]["limits"] == {"memory": "2Gi"}
