"""A stand-in of the API server, which shows the real kubectl the pod runner's objects with their states."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from helpers.kube_api import KINDS, KubeApi
from helpers.manifests import Manifest
from helpers.pod_runner import Cluster, Pod


class PodApi(KubeApi):
    """Serves what a cluster holds now; what kubectl deletes there ends here."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__([], {})
        self._cluster, self._loop = cluster, asyncio.get_running_loop()

    def answer(self, method: str, url: str, body: bytes) -> tuple[int, Any]:
        """Returns status and body of one request."""
        return asyncio.run_coroutine_threadsafe(self._answer(method, url, body), self._loop).result()

    async def _answer(self, method: str, url: str, body: bytes) -> tuple[int, Any]:
        cluster = self._cluster
        held = [state for one in cluster.manifests if (state := _object(cluster, one))]
        self.objects = [*held, *map(_pod, cluster.pods)]
        self.logs = {pod.name: cluster.log(pod, "orchestrator") for pod in cluster.pods}
        before = {(one["kind"], one["metadata"]["name"]) for one in self.objects}
        answered = super().answer(method, url, body)
        for kind, name in before - {(one["kind"], one["metadata"]["name"]) for one in self.objects}:
            if kind != "Pod":  # those go with their owner
                cluster.delete(kind, name)
        if method == "POST":
            cluster.apply([json.loads(body)])
        return answered


def _object(cluster: Cluster, one: Manifest) -> Manifest | None:
    if one["kind"] not in {kind for _, kind in KINDS.values()}:
        return None
    return {**one, "status": cluster.statuses[one["metadata"]["name"]]} if one["kind"] == "Job" else one


def _pod(pod: Pod) -> Manifest:
    marks = {} if pod.index is None else {"batch.kubernetes.io/job-completion-index": str(pod.index)}
    metadata: Manifest = {"name": pod.name, "namespace": pod.namespace, "labels": pod.labels, "annotations": marks}
    if pod.stopping:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {
        "phase": "Running" if any(one["name"] in pod.processes for one in pod.spec["containers"]) else "Pending",
        "initContainerStatuses": [_state(pod, one["name"]) for one in pod.spec.get("initContainers", ())],
        "containerStatuses": [_state(pod, one["name"]) for one in pod.spec["containers"]],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod.spec, "status": status}


def _state(pod: Pod, name: str) -> Manifest:
    ended = pod.terminated.get(name)
    last = {"terminated": {"exitCode": ended[0], "reason": ended[1]}} if ended else {}
    process = pod.processes.get(name)
    state: Manifest = {}
    if name in pod.waiting:
        state = {"waiting": dict(zip(("reason", "message"), pod.waiting[name], strict=True))}
    elif process is None:
        state = {"waiting": {"reason": "PodInitializing"}}
    elif process.returncode is None:
        state = {"running": {}}
    else:
        state, last = last, {}
    return {"name": name, "state": state, "lastState": last, "restartCount": pod.restarts}
