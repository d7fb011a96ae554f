"""--gpus, --memory and --env of `orchestrator submit` reach the container that runs the model, or are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.manifests import REPOSITORY, Manifest, containers_of, environment, needs_kubectl, of_kind, words
from helpers.submitting import submit, submitted

from model_server.cli import serve_command

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


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--gpus=4", "--memory=200Gi", "--env=K=V"), "--gpus, --memory, --env"),
        (("--gpus=4",), "--gpus"),
        (("--gpus=0",), "--gpus"),
        (("--memory=200Gi", "--servers=shared"), "--memory"),
        (("--env=K=V", "--node-selector=pool=a100"), "--env"),
    ],
)
def test_what_an_engines_proxy_would_get_is_refused(flags: tuple[str, ...], named: str) -> None:
    line = refused("--overlay=vllm", *flags)
    assert line == (
        f"{named}: container model-server would get this, and container vllm runs the model: leave it out, and change "
        f"vllm by a component of your own {PAGE}"
    )


@pytest.mark.parametrize("flags", [(), ("--overlay=air-gapped",), ("--servers=shared",), ("--shards=2",)])
def test_more_gpus_than_our_server_uses_are_refused(flags: tuple[str, ...]) -> None:
    assert refused(*flags, "--gpus=4") == (
        "--gpus 4: container model-server uses one GPU (--device=cuda): leave it out, and give --shards 4 (with "
        "--servers shared: --replicas) for servers of one GPU each, or a component of your own that adds --device=auto "
        f"for one server on all of them {PAGE}"
    )


@pytest.mark.parametrize(
    ("flags", "backend"),
    [(("--overlay=cpu-demo",), "demo"), (("--endpoint=http://there/v1", "--model=m"), "openai")],
)
def test_gpus_of_a_server_that_uses_none_are_refused(flags: tuple[str, ...], backend: str) -> None:
    line = refused(*flags, "--gpus=1")
    assert line == f"--gpus 1: container model-server uses no GPU (--backend={backend}): leave it out"


@pytest.mark.parametrize(
    ("flags", "limits"),
    [
        (("--gpus=1", "--memory=64Gi"), {"memory": "64Gi", "nvidia.com/gpu": "1"}),
        (("--gpus=0",), {"memory": "32Gi"}),
        (("--image=a/b:1", "--gpus=4"), {"memory": "32Gi", "nvidia.com/gpu": "4"}),
        (("--image=a/b:1", "--overlay=vllm", "--gpus=4", "--env=K=V"), {"memory": "2Gi", "nvidia.com/gpu": "4"}),
        (("--endpoint=http://there/v1", "--model=m", "--memory=4Gi", "--env=K=V"), {"memory": "4Gi"}),
    ],
)
def test_what_is_used_is_given(flags: tuple[str, ...], limits: dict[str, str]) -> None:
    assert containers(submitted(*RUN, *flags))["model-server"]["resources"]["limits"] == limits


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
    line = refused("--overlay=vllm", component(tmp_path, gone), "--memory=200Gi")
    assert "--memory: container model-server would get this, and container vllm runs the model" in line


def components_of_the_page() -> list[str]:
    section = (REPOSITORY / "docs/kubernetes.md").read_text().partition("## A model over several GPUs\n")[2]
    return re.findall(r"```yaml\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)


def test_the_pages_component_spreads_our_server_over_the_gpus(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(components_of_the_page()[0])
    manifests = submitted(*RUN, f"--component={tmp_path}", "--gpus=4", "--memory=200Gi", "--model=/models/large")
    server = containers(manifests)["model-server"]
    assert server["resources"]["limits"] == {"memory": "200Gi", "nvidia.com/gpu": "4"}
    given = words(server, environment(server, manifests))[1]
    assert serve_command.make_context("serve", given[1:]).params["device"] == "auto"


def test_the_pages_component_gives_the_engine_gpus_memory_and_variables(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(components_of_the_page()[1])
    found = containers(submitted(*RUN, "--overlay=vllm", f"--component={tmp_path}"))
    engine, proxy = found["vllm"], found["model-server"]
    assert engine["resources"]["limits"] == {"memory": "200Gi", "nvidia.com/gpu": "4"}
    assert engine["resources"]["requests"]["memory"] == "200Gi"
    assert {"name": "NAME", "value": "VALUE"} in engine["env"]
    assert "--tensor-parallel-size=4" in engine["args"]
    assert proxy["resources"]["limits"] == {"memory": "2Gi"}
