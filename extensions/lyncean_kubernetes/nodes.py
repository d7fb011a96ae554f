"""Model servers over several nodes: a Deployment's pods become groups of a LeaderWorkerSet."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lyncean_kubernetes.engines import NAME, Computing, computing
from lyncean_kubernetes.objects import NAME_LABEL, RUN, SERVERS, Manifest, pod_of

GROUPED = "lyncean.dev/nodes"
"""Label of a run's Jobs whose model servers are groups of pods that end when the run is deleted."""
_GROUP = "engine"
_LWS = "leaderworkerset.sigs.k8s.io"
_API = "leaderworkerset.x-k8s.io/v1"
_DNS = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ],
    "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")],
}
_OF_SERVING = ("ports", "startupProbe", "readinessProbe", "livenessProbe", "restartPolicy")


def spread(manifests: Sequence[Manifest], nodes: int, replicas: int | None) -> list[Manifest]:
    """Returns manifests with the model servers' Deployment as a LeaderWorkerSet, whose leaders serve.

    Args:
        manifests: Objects of a run whose model servers have pods of their own.
        nodes: Pods of each group.
        replicas: Groups; None for one.
    """
    (server,) = (one for one in manifests if one["kind"] == "Deployment" and _is_server(_labels(one)))
    owner = next(key for key in (SERVERS, RUN) if key in _labels(server))
    group = _group(server, nodes)
    if "replicas" in server["spec"]:  # absent with the component keda, which scales
        group["spec"]["replicas"] = replicas or 1
    result: list[Manifest] = json.loads(json.dumps([group if one is server else one for one in manifests]))
    for one in result:
        kind, spec = one["kind"], one.get("spec", {})
        if kind == "Service" and _is_server(spec["selector"]):
            spec["selector"][f"{_LWS}/worker-index"] = "0"
        elif kind == "ScaledObject":
            for trigger in spec["triggers"]:
                query = trigger["metadata"].get("query")
                if query is not None:
                    trigger["metadata"]["query"] = query.replace(server["metadata"]["name"], group["metadata"]["name"])
            spec["scaleTargetRef"] = {"apiVersion": _API, "kind": group["kind"], "name": group["metadata"]["name"]}
        elif kind == "Job" and owner == RUN:
            _labels(one)[GROUPED] = str(nodes)
    if any(one["kind"] == "NetworkPolicy" for one in result):
        result.append(json.loads(json.dumps(_policy(group, owner))))
    return result


def _group(server: Manifest, nodes: int) -> Manifest:
    template = server["spec"]["template"]
    engine = computing(pod_of(server))
    metadata = {**server["metadata"], "name": server["metadata"]["name"].replace(NAME, _GROUP, 1)}
    return {
        "apiVersion": _API,
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": {
            "leaderWorkerTemplate": {
                "size": nodes,
                # The processes of a group find each other only at startup, so that the end of one must restart all.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": {**template, "spec": _leader(template["spec"], engine)},
                "workerTemplate": {**template, "spec": _worker(template["spec"], engine)},
            },
        },
    }


def _leader(pod: Manifest, engine: Computing) -> Manifest:
    leader: Manifest = json.loads(json.dumps(pod))
    for container in (*leader.get("initContainers", ()), *leader["containers"]):
        if container["name"] == engine.name and "startupProbe" in container:
            # A model of several nodes loads for longer than the kubelet tries a container of one.
            container["startupProbe"]["failureThreshold"] = 2 * container["startupProbe"].get("failureThreshold", 3)
    return leader


def _worker(pod: Manifest, engine: Computing) -> Manifest:
    """Returns a pod of the engine alone, without ports and probes, after the init containers that end."""
    worker: Manifest = json.loads(json.dumps(pod))
    before = [one for one in worker.pop("initContainers", ()) if one.get("restartPolicy") != "Always"]
    container = {key: value for key, value in engine.container.items() if key not in _OF_SERVING}
    container["args"] = engine.following()
    used = {mount["name"] for one in (*before, container) for mount in one.get("volumeMounts", ())}
    return {
        **worker,
        **({"initContainers": before} if before else {}),
        "containers": [container],
        "volumes": [volume for volume in worker.get("volumes", ()) if volume["name"] in used],
    }


def _policy(group: Manifest, owner: str) -> Manifest:
    """Returns the policy that opens DNS and all ports between a group's pods, where other policies close them."""
    pods = {"matchLabels": {f"{_LWS}/name": group["metadata"]["name"]}}
    metadata = {key: group["metadata"][key] for key in ("name", "namespace")}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {**metadata, "labels": {owner: _labels(group)[owner]}},
        "spec": {
            "podSelector": pods,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": pods}]}],
            "egress": [{"to": [{"podSelector": pods}]}, _DNS],
        },
    }


def _is_server(labels: dict[str, str]) -> bool:
    return labels.get(NAME_LABEL) == NAME


def _labels(one: Manifest) -> dict[str, str]:
    labels: dict[str, str] = one["metadata"]["labels"]
    return labels
