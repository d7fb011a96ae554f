"""The model server of a submitted run, as its flags change it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from lyncean.errors import UserError
from lyncean.rpc import without_password

NAME = "model-server"
LOADING = "load-weights"
"""The Job that downloads the weights of model servers."""
_TLS = {
    "LYNCEAN_TLS_CERT": "/tls/tls.crt",
    "LYNCEAN_TLS_KEY": "/tls/tls.key",
    "LYNCEAN_TLS_CLIENT_CA": "/tls/ca.crt",
    "LYNCEAN_HEALTH_PORT": "50061",
}
"""What the component `mtls` mounts and probes, as docs/contract.md names it to an image that is not ours."""


@dataclass(frozen=True, slots=True)
class Server:
    """Changes to the overlay's model server; None and empty values leave what the overlay has.

    Attributes:
        image: Image that implements the contract, instead of ours.
        arguments: Arguments of that image.
        gpus: GPUs of each replica, as the limit of `nvidia.com/gpu`; 0 removes the limit.
        memory: Memory of each replica, requested and as the limit, for example `64Gi`.
        variables: Environment variables, as NAME=VALUE.
        selectors: Labels of the nodes it may run on, as KEY=VALUE.
        tolerations: Taints it tolerates beside the overlay's, as KEY[=VALUE][:EFFECT].
    """

    image: str | None = None
    arguments: tuple[str, ...] = ()
    gpus: int | None = None
    memory: str | None = None
    variables: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    tolerations: tuple[str, ...] = ()

    def patch(self, before: str) -> dict[str, Any]:
        """Returns the kustomize patch of the Deployment in manifests that are without the changes.

        Raises:
            UserError: If a flag is not written as it must be, or would not reach what runs the model.
        """
        (found,) = (
            one for one in yaml.safe_load_all(before) if (one["kind"], one["metadata"]["name"]) == ("Deployment", NAME)
        )
        pod = found["spec"]["template"]["spec"]
        variables = _pairs("--env", self.variables)
        container: dict[str, Any] = {"name": NAME}
        if self.image is not None:
            container |= {"image": self.image, "args": list(self.arguments)}
            if any(volume["name"] == "tls" for volume in pod.get("volumes", ())):
                variables = {**_TLS, **variables}
        (ours,) = (one for one in pod["containers"] if one["name"] == NAME)
        if self.image is None:
            self._check_reach(pod, ours)
        for one in ours.get("env", ()):
            if "valueFrom" in one and one["name"] in variables:
                raise UserError(
                    f"--env {one['name']}: it comes from a Secret or ConfigMap of the cluster; set it there"
                )
        if variables:
            container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
        limits: dict[str, Any] = {} if self.gpus is None else {"nvidia.com/gpu": str(self.gpus) if self.gpus else None}
        requests: dict[str, Any] = {}
        if self.memory is not None:
            if not re.fullmatch(r"[1-9]\d*([KMGTP]i?|k)?", self.memory):
                raise UserError(f"--memory {self.memory!r}: a quantity such as 64Gi")
            limits["memory"] = requests["memory"] = self.memory
        if limits:
            container["resources"] = {"limits": limits, "requests": requests}
        changed: dict[str, Any] = {"containers": [container]}
        if self.selectors:
            changed["nodeSelector"] = _pairs("--node-selector", self.selectors)
        if self.tolerations:
            changed["tolerations"] = [*pod.get("tolerations", ()), *map(_toleration, self.tolerations)]
        return merge("Deployment", {"template": {"spec": changed}}, NAME)

    def _check_reach(self, pod: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
        """Refuses GPUs, memory and variables that a container would get which does not use them.

        Raises:
            UserError: If another container of the pod runs the model, or our server uses fewer GPUs.
        """
        given = {"--gpus": self.gpus is not None, "--memory": self.memory is not None, "--env": bool(self.variables)}
        flags = ", ".join(flag for flag, is_given in given.items() if is_given)
        options = _options(ours.get("args") or ())
        if flags and (engine := _engine(pod, options)):
            raise UserError(
                f"{flags}: container {NAME} would get this, and container {engine} runs the model: leave it out, and "
                f"change {engine} by a component of your own ({_PAGE})"
            )
        used, most = _gpus_used(options)
        if self.gpus is None or most is None or self.gpus <= most:
            return
        if not most:
            raise UserError(f"--gpus {self.gpus}: container {NAME} uses no GPU ({used}): leave it out")
        raise UserError(
            f"--gpus {self.gpus}: container {NAME} uses one GPU ({used}): leave it out, and give --shards {self.gpus} "
            "(with --servers shared: --replicas) for servers of one GPU each, or a component of your own that adds "
            f"--device=auto for one server on all of them ({_PAGE})"
        )


_PAGE = "docs/kubernetes.md, A model over several GPUs"


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """Returns the options of `model-server serve` that have values, {} for the arguments of another program."""
    words = " ".join(arguments)
    return dict(re.findall(r"--([a-z-]+)[= ](?!--)(\S+)", words)) if words.startswith("serve ") else {}


def _engine(pod: Mapping[str, Any], options: Mapping[str, str]) -> str:
    """Returns the container beside the model server that runs the model, "" for none.

    It is the one that has devices, or any one if the model server is the proxy of an API in its own pod.
    """
    started = [one for one in pod.get("initContainers", ()) if one.get("restartPolicy") == "Always"]
    beside = [one for one in (*started, *pod["containers"]) if one["name"] != NAME]
    local = re.match(r"https?://(127\.|localhost\b|\[::1\])", options.get("base-url", ""))
    found = [one for one in beside if _has_devices(one)] or (beside if local else [])
    return str(found[0]["name"]) if found else ""


def _has_devices(container: Mapping[str, Any]) -> bool:
    """Whether a container has resources of a device plugin, such as nvidia.com/gpu."""
    return any("/" in name for name in container.get("resources", {}).get("limits", {}))


def _gpus_used(options: Mapping[str, str]) -> tuple[str, int | None]:
    """Returns the option of our server that decides how many GPUs it uses at most, and their number; None for any."""
    backend, device = options.get("backend", ""), options.get("device", "auto")
    if backend != "transformers":
        return f"--backend={backend}", 0 if backend in ("demo", "openai") else None
    return f"--device={device}", 1 if device.startswith("cuda") else 0 if device == "cpu" else None


def merge(kinds: str, spec: Mapping[str, Any], name: str = ".*") -> dict[str, Any]:
    """Returns a kustomize patch that merges `spec` into all objects of some kinds and a name."""
    # The target decides; kustomize wants a kind and a name in the patch as well.
    written = {"apiVersion": "any/v1", "kind": "any", "metadata": {"name": "any"}, "spec": spec}
    return {"target": {"kind": kinds, "name": name}, "patch": json.dumps(written)}


def _pairs(flag: str, words: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for word in words:
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
    found = {"key": key, "operator": "Exists"} if value is None else {"key": key, "operator": "Equal", "value": value}
    return {**found, **({"effect": effect} if effect else {})}
