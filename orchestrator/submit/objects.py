"""A run's objects after kustomize has rendered them: those that it does not need are taken out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from orchestrator.submit.server import LOADING, NAME

Manifest = dict[str, Any]

_LABEL = "app.kubernetes.io/name"
_USED = ("ConfigMap", "PersistentVolumeClaim", "ServiceAccount")
"""Kinds that are there for pods alone."""


def without_servers(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Returns the manifests without model servers and all that is there for them alone."""
    kept = [one for one in manifests if not _for_servers(one)]
    return without_unused(kept)


def without_unused(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Returns the manifests without the claims, ConfigMaps and accounts that no pod of theirs names."""
    pods = json.dumps([pod_of(one) for one in manifests if one["kind"] in ("Deployment", "Job")])
    return [one for one in manifests if one["kind"] not in _USED or json.dumps(one["metadata"]["name"]) in pods]


def pod_of(manifest: Manifest) -> Manifest:
    """Returns the pod spec of a Deployment or Job."""
    spec: Manifest = manifest["spec"]["template"]["spec"]
    return spec


def _for_servers(manifest: Manifest) -> bool:
    kind, name, spec = manifest["kind"], manifest["metadata"]["name"], manifest.get("spec", {})
    if kind in ("Deployment", "Job"):
        return bool(name == NAME or name.startswith(LOADING))
    if kind == "Service":
        return bool(spec["selector"].get(_LABEL) == NAME)
    if kind in ("PodDisruptionBudget", "PodMonitor"):
        return bool(spec["selector"].get("matchLabels", {}).get(_LABEL) == NAME)
    return False
