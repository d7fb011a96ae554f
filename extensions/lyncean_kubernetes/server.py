"""The model server of a submitted run, as its flags change it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from lyncean.errors import UserError
from lyncean.rpc import without_password
from lyncean_kubernetes.engines import NAME, Computing, computing

LOADING = "load-weights"
"""Name of the Job that downloads the weights of model servers."""
_TLS = {
    "LYNCEAN_TLS_CERT": "/tls/tls.crt",
    "LYNCEAN_TLS_KEY": "/tls/tls.key",
    "LYNCEAN_TLS_CLIENT_CA": "/tls/ca.crt",
    "LYNCEAN_HEALTH_PORT": "50061",
}
"""Files and port of the component `mtls`, under the variables that docs/contract.md defines for other images."""
_KEY = re.compile(r"(sk-|hf_|ghp_|github_pat_|glpat-|xox[abp]-|AKIA|AIza|eyJ)[\w.-]{12,}")
"""Beginnings of the keys that vendors hand out."""
_KEY_NAME = re.compile(r"(^|_)(API_?KEY|SECRET|PASSWORD|TOKEN)$", re.IGNORECASE)
_NO_KEYS = ("", "none", "null", "empty", "dummy")
_NAME = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
_POD = "/spec/template/spec"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a container's own, mounted from its pod


@dataclass(frozen=True, slots=True)
class Server:
    """Changes to the overlay's model server; None and empty values leave what the overlay has.

    Attributes:
        image: Image that implements the contract, instead of ours.
        arguments: Arguments of that image, or further ones of the container that runs the model.
        options: Options of our own model server, as arguments of `model-server serve`.
        gpus: GPUs of each replica, as the limit of `nvidia.com/gpu`; 0 removes the limit.
        nodes: Nodes that each replica is spread over, each with such GPUs and memory; None for one.
        memory: Memory of each replica, requested and as the limit, for example `64Gi`.
        variables: Environment variables, as NAME=VALUE.
        secret_variables: Environment variables from Secrets, as NAME=SECRET:KEY.
        mounts: Claims that are mounted read-only, as CLAIM:PATH.
        selectors: Labels of the nodes it may run on, as KEY=VALUE.
        tolerations: Taints it tolerates beside the overlay's, as KEY[=VALUE][:EFFECT].
        priority_class: PriorityClass of its pods.
        runtime_class: RuntimeClass of its pods.
    """

    image: str | None = None
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    gpus: int | None = None
    nodes: int | None = None
    memory: str | None = None
    variables: tuple[str, ...] = ()
    secret_variables: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    tolerations: tuple[str, ...] = ()
    priority_class: str | None = None
    runtime_class: str | None = None

    def patches(self, before: str) -> list[dict[str, Any]]:
        """Returns the kustomize patches that change the Deployment in rendered manifests.

        GPUs, memory, arguments, variables and mounts go to the container that runs the model.

        Raises:
            UserError: If a flag is malformed, or would not reach the container that runs the model.
        """
        (deployment,) = (
            one for one in yaml.safe_load_all(before) if (one["kind"], one["metadata"]["name"]) == ("Deployment", NAME)
        )
        pod = deployment["spec"]["template"]["spec"]
        operations = list(self._operations(pod))
        merged = merge("Deployment", {"template": {"spec": self._of_pod(pod)}}, NAME)
        if not operations:
            return [merged]
        return [merged, {"target": {"kind": "Deployment", "name": NAME}, "patch": json.dumps(operations)}]

    def changed(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a changed copy of a pod, whose one container is the model server.

        Raises:
            UserError: As `patches`.
        """
        result: dict[str, Any] = json.loads(json.dumps(pod))
        for operation in self._operations(pod):
            *parents, last = operation["path"].removeprefix(_POD).strip("/").split("/")
            target: Any = result
            for part in parents:
                target = target[int(part) if isinstance(target, list) else part]
            if isinstance(target, dict):
                target[last] = operation["value"]
            elif last == "-":
                target.append(operation["value"])
            else:
                target[int(last)] = operation["value"]
        return result | self._of_pod(result)

    def _operations(self, pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the changes of the container that runs the model."""
        target = _own_image(pod) if self.image is not None else computing(pod)
        if self.options and (self.image is not None or target.is_beside):
            raise UserError(
                f"--model-option {self.options[0].removeprefix('--')}: container {target.name} runs the model, and is "
                "not our server: give its own arguments after `--`"
            )
        if self.image is not None:
            if self.nodes is not None:
                raise UserError(f"--nodes {self.nodes} with --image: serve it over nodes yourself and give --endpoint")
            yield _set(f"{target.path}/image", self.image)
            yield _set(f"{target.path}/args", list(self.arguments))
        else:
            arguments = target.extended([*self.options, *self.arguments], self.gpus, self.nodes)
            if arguments != list(target.container.get("args") or ()):
                yield _set(f"{target.path}/args", arguments)
        if self.memory is not None and not re.fullmatch(r"[1-9]\d*([KMGTP]i?|k)?", self.memory):
            raise UserError(f"--memory {self.memory!r}: a quantity such as 64Gi")
        if (resources := target.resources(self.gpus, self.memory)) is not None:
            yield _set(f"{target.path}/resources", resources)
        yield from self._environment(pod, target)
        yield from self._mounted(pod, target)

    def _environment(self, pod: Mapping[str, Any], target: Computing) -> Iterator[dict[str, Any]]:
        values = _pairs("--env", self.variables)
        for name, value in values.items():
            _check_secret(name, value)
        if self.image is not None and any(volume["name"] == "tls" for volume in pod.get("volumes", ())):
            values = {**_TLS, **values}
        wanted: dict[str, dict[str, Any]] = {name: {"name": name, "value": value} for name, value in values.items()}
        for name, source in _pairs("--secret-env", self.secret_variables).items():
            secret, _, key = source.partition(":")
            if not re.fullmatch(_NAME, secret) or not re.fullmatch(r"[\w.-]+", key, re.ASCII):
                raise UserError(
                    f"--secret-env {name}={source}: give NAME=SECRET:KEY, a Secret of the namespace and a key of it"
                )
            wanted[name] = {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        declared = target.container.get("env", [])
        if wanted and not declared:
            yield _set(f"{target.path}/env", [])
        places = {one["name"]: index for index, one in enumerate(declared)}
        for name, variable in wanted.items():
            index = places.get(name)
            if index is not None and "valueFrom" in declared[index] and "value" in variable:
                raise UserError(f"--env {name}: it comes from a Secret or ConfigMap of the cluster; set it there")
            if index is None:
                yield _set(f"{target.path}/env/-", variable)
            else:
                yield {"op": "replace", "path": f"{target.path}/env/{index}", "value": variable}

    def _mounted(self, pod: Mapping[str, Any], target: Computing) -> Iterator[dict[str, Any]]:
        taken = {one["mountPath"] for one in target.container.get("volumeMounts", ())}
        volumes: list[dict[str, Any]] = []
        mounts: list[dict[str, Any]] = []
        for word in self.mounts:
            claim, _, path = word.partition(":")
            if not re.fullmatch(_NAME, claim) or not re.fullmatch(r"/[\w./-]+", path, re.ASCII) or ".." in path:
                raise UserError(f"--mount {word}: give CLAIM:/PATH, a claim of the namespace and a folder")
            if path in taken:
                raise UserError(
                    f"--mount {word}: container {target.name} has a volume at {path}: choose another folder"
                )
            taken.add(path)
            name = f"mount-{len(volumes)}"
            volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}})
            mounts.append({"name": name, "mountPath": path, "readOnly": True})
        if ((self.gpus or 0) > 1 or self.nodes) and _SHARED_MEMORY not in taken and target.engine != "transformers":
            # The processes of one model pass tensors through it; the runtime's default is 64 MiB.
            volumes.append({"name": "shared-memory", "emptyDir": {"medium": "Memory"}})
            mounts.append({"name": "shared-memory", "mountPath": _SHARED_MEMORY})
        if volumes and not pod.get("volumes"):
            yield _set(f"{_POD}/volumes", [])
        if mounts and not target.container.get("volumeMounts"):
            yield _set(f"{target.path}/volumeMounts", [])
        yield from (_set(f"{_POD}/volumes/-", one) for one in volumes)
        yield from (_set(f"{target.path}/volumeMounts/-", one) for one in mounts)

    def _of_pod(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        if self.selectors:
            changed["nodeSelector"] = _pairs("--node-selector", self.selectors)
        if self.tolerations:
            changed["tolerations"] = [*pod.get("tolerations", ()), *map(_toleration, self.tolerations)]
        named = {"priorityClassName": self.priority_class, "runtimeClassName": self.runtime_class}
        return changed | {key: name for key, name in named.items() if name is not None}


def _own_image(pod: Mapping[str, Any]) -> Computing:
    """Returns the model server's container, which runs a user's image."""
    ((index, one),) = ((index, one) for index, one in enumerate(pod["containers"]) if one["name"] == NAME)
    return Computing(f"{_POD}/containers/{index}", one, "", {})


def _set(path: str, value: object) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _check_secret(name: str, value: str) -> None:
    """Refuses a variable that would put a key into the manifests.

    Raises:
        UserError: If the name or the value looks like a key.
    """
    if _KEY.match(value) or (_KEY_NAME.search(name) and value.lower() not in _NO_KEYS):
        raise UserError(
            f"--env {name}: its value looks like a key, and would stand in the manifests: put it into a Secret, and "
            f"give --secret-env {name}=SECRET:KEY"
        )


def merge(kinds: str, spec: Mapping[str, Any], name: str = ".*") -> dict[str, Any]:
    """Returns a kustomize patch that merges `spec` into all objects of some kinds and a name."""
    # The target decides; kustomize requires a kind and a name in the patch as well.
    written = {"apiVersion": "any/v1", "kind": "any", "metadata": {"name": "any"}, "spec": spec}
    return {"target": {"kind": kinds, "name": name}, "patch": json.dumps(written)}


def _pairs(flag: str, values: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for word in values:
        key, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[\w./-]+", key, re.ASCII):
            raise UserError(f"{flag} {without_password(word)!r}: give NAME=VALUE")
        pairs[key] = value
    return pairs


def _toleration(word: str) -> dict[str, str]:
    parts = re.fullmatch(r"([\w./-]+)(?:=([\w.-]*))?(?::(NoSchedule|PreferNoSchedule|NoExecute))?", word, re.ASCII)
    if parts is None:
        raise UserError(f"--toleration {word!r}: KEY[=VALUE][:EFFECT], for example nvidia.com/gpu:NoSchedule")
    key, value, effect = parts.groups()
    toleration = (
        {"key": key, "operator": "Exists"} if value is None else {"key": key, "operator": "Equal", "value": value}
    )
    return {**toleration, **({"effect": effect} if effect else {})}
