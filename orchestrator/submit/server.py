"""The model server of a submitted run, as its flags change it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from lyncean.addresses import without_password
from lyncean.errors import UserError

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
            UserError: If a flag is not written as it must be.
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
