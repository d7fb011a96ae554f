"""The controllers of the pod runner: Deployments, Jobs with their failure policy, and LeaderWorkerSets."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from helpers.manifests import Manifest, containers_of

if TYPE_CHECKING:
    from helpers.pod_runner import Cluster, Pod

RETRY = 0.5
"""Seconds before a failed pod's replacement; Kubernetes begins with ten."""
_LWS = "leaderworkerset.sigs.k8s.io"


async def deployment(cluster: Cluster, manifest: Manifest) -> None:
    """Keeps as many pods as it says."""
    while manifest in cluster.manifests:
        here = [pod for pod in cluster.pods if pod.owner is manifest and not pod.stopping]
        for _ in range(manifest["spec"].get("replicas", 1) - len(here)):
            cluster.start(manifest, manifest["spec"]["template"])
        await asyncio.sleep(0.1)


async def job(cluster: Cluster, manifest: Manifest) -> str:
    """Runs a Job's pods until it is complete or has failed, which ends what still runs."""
    spec = manifest["spec"]
    indexed = spec.get("completionMode") == "Indexed"
    indexes = range(spec["completions"]) if indexed else [None]
    free = asyncio.Semaphore(spec.get("parallelism", 1))
    status = cluster.statuses[manifest["metadata"]["name"]] = {"active": 0, "succeeded": 0, "failed": 0}
    failed: list[int | None] = []
    ended = asyncio.Event()
    message = ""

    async def one(index: int | None) -> None:
        nonlocal message
        failures = 0
        limit = spec["backoffLimitPerIndex"] if indexed else spec.get("backoffLimit", 6)
        async with free:
            while not ended.is_set():
                pod = cluster.start(manifest, spec["template"], index=index)
                status["active"] += 1
                assert pod.task is not None
                await asyncio.wait([pod.task])  # which goes on to its end where the Job is deleted
                status["active"] -= 1
                if pod.exit_code == 0:
                    status["succeeded"] += 1
                    return
                status["failed"] += 1
                action = _policy(spec.get("podFailurePolicy", {}).get("rules", ()), pod)
                failures += action == "Count"
                if action in ("FailJob", "FailIndex") or failures > limit:
                    message = message or f"Failed: {pod.name}: {pod.ended_by} exited with {pod.exit_code}"
                    failed.append(index)
                    if action == "FailJob" or not indexed:
                        ended.set()
                        here = [other for other in cluster.pods if other.owner is manifest]
                        await asyncio.gather(*(cluster.end(other) for other in here))
                    return
                await asyncio.sleep(RETRY)

    await asyncio.gather(*(one(index) for index in indexes))
    kind = "Failed" if failed else "Complete"
    if failed and indexed:
        status["failedIndexes"] = ",".join(map(str, sorted(index for index in failed if index is not None)))
    status["conditions"] = [{"type": kind, "status": "True", "message": message}]
    return message or "Complete"


def _policy(rules: Any, pod: Pod) -> str:
    """Returns the action of the first rule that matches; "Count" if none does."""
    for rule in rules:
        if "onPodConditions" in rule and pod.drained:
            return str(rule["action"])
        codes = rule.get("onExitCodes")
        if codes and codes["containerName"] == pod.ended_by and pod.exit_code in codes["values"]:
            return str(rule["action"])
    return "Count"


async def leader_worker_set(cluster: Cluster, manifest: Manifest) -> None:
    """Keeps groups of a leader and its workers; a group in which a container starts anew is made anew, as asked."""
    groups = range(manifest["spec"].get("replicas", 1))
    await asyncio.gather(*(_group(cluster, manifest, number) for number in groups))


async def _group(cluster: Cluster, manifest: Manifest, number: int) -> None:
    spec, name = manifest["spec"]["leaderWorkerTemplate"], manifest["metadata"]["name"]
    namespace, size = manifest["metadata"]["namespace"], spec["size"]
    leader = f"{name}-{number}"
    recreate = spec.get("restartPolicy", "RecreateGroupOnPodRestart") == "RecreateGroupOnPodRestart"
    pods: list[Pod | None] = [None] * size
    while manifest in cluster.manifests:
        again = recreate and any(pod is not None and (pod.stopping or pod.restarts) for pod in pods)
        if again:
            await asyncio.gather(*(cluster.end(pod) for pod in pods if pod is not None and not pod.stopping))
            pods = [None] * size
        for index, pod in enumerate(pods):
            if pod is not None and not pod.stopping:
                continue
            template = spec["leaderTemplate"] if index == 0 and "leaderTemplate" in spec else spec["workerTemplate"]
            template = json.loads(json.dumps(template))
            marks = {"name": name, "group-index": str(number), "worker-index": str(index)}
            labels = template.setdefault("metadata", {}).setdefault("labels", {})
            labels |= {f"{_LWS}/{key}": value for key, value in marks.items()}
            address = leader if index == 0 else f"{leader}-{index}"
            variables = {
                "LWS_LEADER_ADDRESS": f"{leader}.{name}.{namespace}",
                "LWS_GROUP_SIZE": str(size),
                "LWS_WORKER_INDEX": str(index),
            }
            # The controller puts its variables first, so that others' values may use them.
            for container in containers_of(template["spec"]):
                entries = [{"name": key, "value": value} for key, value in variables.items()]
                container["env"] = [*entries, *container.get("env", ())]
            while any(other.name == address for other in cluster.pods):
                await asyncio.sleep(0.05)
            pods[index] = cluster.start(manifest, template, address, aliases=(f"{address}.{name}.{namespace}",))
        await asyncio.sleep(0.1)
