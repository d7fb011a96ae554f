"""Helpers for tests of manifests: rendered by kubectl, read as the kubelet reads them."""

from __future__ import annotations

import base64
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
OVERLAYS = sorted(path.name for path in (DEPLOY / "overlays").iterdir())
COMPONENTS = sorted(path.name for path in (DEPLOY / "components").iterdir())
INCLUDED = {"pdb": "cpu-demo", "sharded": "cpu-demo", "keda": "gpu", "kueue": "vllm"}
"""Component -> the overlay it is tested on, if that is not the base."""

Manifest = dict[str, Any]

INSTALL_KUBECTL = "install kubectl, https://kubernetes.io/docs/tasks/tools (Debian's kubernetes-client is too old)"
needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason=f"no kubectl, whose `kustomize` renders the manifests: {INSTALL_KUBECTL}"
)


def kustomize(folder: Path) -> list[Manifest]:
    """Renders a folder."""
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def objects(*texts: str) -> list[Manifest]:
    """Those of texts of YAML, read by the loader in C."""
    return [manifest for text in texts for manifest in yaml.load_all(text, yaml.CSafeLoader) if manifest]


@functools.cache
def rendered(name: str) -> list[Manifest]:
    """Renders "base", "overlay/NAME", "component/NAME" (on the base or an overlay) or "cluster"."""
    kind, _, name = name.partition("/")
    if kind == "overlay":
        return kustomize(DEPLOY / "overlays" / name)
    if kind == "component":
        return with_components(INCLUDED.get(name, "base"), name)
    return (
        [*kustomize(DEPLOY / "namespace"), *kustomize(DEPLOY / "cluster/kueue")]
        if kind == "cluster"
        else (kustomize(DEPLOY / "base"))
    )


def with_components(overlay: str, *names: str) -> list[Manifest]:
    """Renders an overlay, or the base, with components added."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(os.path.relpath(DEPLOY, Path(folder).resolve()))
        base = here / "base" if overlay == "base" else here / "overlays" / overlay
        content = {"resources": [str(base)], "components": [str(here / "components" / name) for name in names]}
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(content))
        return kustomize(Path(folder))


ALL = ["base", *(f"overlay/{name}" for name in OVERLAYS), *(f"component/{name}" for name in COMPONENTS), "cluster"]


def of_kind(manifests: list[Manifest], *kinds: str) -> list[Manifest]:
    """Those of some kinds."""
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def workloads(manifests: list[Manifest]) -> list[Manifest]:
    """Those that make pods; of a LeaderWorkerSet one for the leader and one for the workers."""
    return [*of_kind(manifests, "Deployment", "Job"), *map(_as_workload, group_templates(manifests))]


def group_templates(manifests: list[Manifest]) -> list[tuple[Manifest, str, Manifest]]:
    """Each LeaderWorkerSet with the roles and templates of its pods."""
    return [
        (one, role, one["spec"]["leaderWorkerTemplate"][f"{role}Template"])
        for one in of_kind(manifests, "LeaderWorkerSet")
        for role in ("leader", "worker")
    ]


def _as_workload(group: tuple[Manifest, str, Manifest]) -> Manifest:
    """A pod template with the labels that the controller adds."""
    one, role, template = group
    prefix = "leaderworkerset.sigs.k8s.io"
    marks = {f"{prefix}/name": one["metadata"]["name"], f"{prefix}/worker-index": "0" if role == "leader" else "1"}
    labels = {**template["metadata"]["labels"], **marks}
    return {**one, "spec": {"template": {**template, "metadata": {"labels": labels}}}}


def containers(workload: Manifest) -> Iterator[Manifest]:
    """Init containers first, as they run."""
    yield from containers_of(workload["spec"]["template"]["spec"])


def containers_of(pod: Manifest) -> list[Manifest]:
    """Those of a pod spec, init containers first."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def data_of(manifests: list[Manifest], kind: str) -> dict[str, dict[str, str]]:
    """Name -> data of ConfigMaps or Secrets, which may hold theirs as base64."""

    def text(manifest: Manifest) -> dict[str, str]:
        data = manifest.get("data", {})
        if kind == "Secret":
            data = {key: base64.b64decode(value, validate=True).decode("utf-8") for key, value in data.items()}
        return {**data, **manifest.get("stringData", {})}

    return {manifest["metadata"]["name"]: text(manifest) for manifest in of_kind(manifests, kind)}


def environment(
    container: Manifest, manifests: list[Manifest], last: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables that the kubelet sets, in its order: envFrom, env (each may use those before it), then `last`.

    The Job controller appends JOB_COMPLETION_INDEX to a container's `env`, so that it comes last: arguments may use
    it, values of other variables may not.
    """
    maps, secrets = data_of(manifests, "ConfigMap"), data_of(manifests, "Secret")
    environment: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "secretRef" in source:
            assert source["secretRef"]["optional"]
            environment.update(secrets.get(source["secretRef"]["name"], {}))
        else:
            environment.update(maps[source["configMapRef"]["name"]])
    for item in container.get("env", ()):
        if "value" in item:
            environment[item["name"]] = expand(item["value"], environment)
            continue
        ((kind, reference),) = item["valueFrom"].items()
        held = {"configMapKeyRef": maps, "secretKeyRef": secrets}[kind].get(reference["name"], {})
        if reference["key"] in held:
            environment[item["name"]] = held[reference["key"]]
        else:
            assert reference.get("optional"), f"{reference} is not there and not optional"
    return {**environment, **(last or {})}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces `$(NAME)`; a name that is not set stays, as in Kubernetes, and `$$` is a dollar."""
    return re.sub(
        r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)",
        lambda match: "$" if match[0] == "$$" else variables.get(match[1], match[0]),
        text,
    )


def command_line(container: Manifest, variables: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """A container's command and arguments, expanded."""
    return (
        [expand(word, variables) for word in container.get("command", ())],
        [expand(word, variables) for word in container.get("args", ())],
    )


def entrypoint(image: str) -> list[str]:
    """The ENTRYPOINT of the Dockerfile that an image of ours is built from; [] for others' images."""
    name = image.rpartition(":")[0].removeprefix("lyncean-").removesuffix("-slim").removesuffix("-cpu")
    path = REPOSITORY / "docker" / f"{name}.Dockerfile"
    if not image.startswith("lyncean-") or not path.exists():
        return []
    (line,) = re.findall(r"^ENTRYPOINT (\[.*\])$", path.read_text(), re.MULTILINE)
    parsed: list[str] = yaml.safe_load(line)
    return parsed


def image_variables(image: str) -> dict[str, str]:
    """The ENV of the final stage of the Dockerfile of an image of ours, without PATH."""
    name = image.rpartition(":")[0].removeprefix("lyncean-").removesuffix("-slim").removesuffix("-cpu")
    stage = (REPOSITORY / "docker" / f"{name}.Dockerfile").read_text().rpartition("\nFROM ")[2].replace("\\\n", " ")
    variables = dict(re.findall(r"(\w+)=(\S+)", " ".join(re.findall(r"^ENV (.*)$", stage, re.MULTILINE))))
    variables.pop("PATH")
    return variables
