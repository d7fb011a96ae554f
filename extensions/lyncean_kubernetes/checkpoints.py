"""`submit --suite FILE --checkpoints PATTERN`: a CronJob that evaluates a training's checkpoints on their claim.

Every few minutes a pod looks for complete checkpoints, evaluates those without results and ends; only one pod runs at a
time. Its folder is on the claim of runs, so that a killed pod loses only the answers in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lyncean_kubernetes.engines import NAME
from lyncean_kubernetes.kubectl import SubmitError
from lyncean_kubernetes.objects import NAME_LABEL, SUITE, Manifest, hash_of
from lyncean_kubernetes.server import Server
from orchestrator.suite import Suite

SCHEDULE = "*/5 * * * *"
"""Every five minutes."""
_SUITE = "/suite"
_RUNS = "/runs"
_QUEUE = "kueue.x-k8s.io/queue-name"
_MOST = 256 * 1024 - 4096
"""Most bytes of a ConfigMap that `kubectl apply` takes."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A training whose checkpoints a CronJob evaluates.

    Attributes:
        name: Name of the CronJob's suite, and of its folder under /runs.
        pattern: Pattern of the checkpoints' folders, as the pod sees them.
        server: Image, resources, variables and mounts of the pod; its image has lyncean[transformers].
        namespace: The Kubernetes namespace.
        queue: Kueue's LocalQueue, None for none.
        pull_secrets: Secrets that pull the image.
    """

    name: str
    pattern: str
    server: Server
    namespace: str
    queue: str | None
    pull_secrets: Sequence[str]


def render_watched(watched: Watched, suite: Suite) -> list[Manifest]:
    """Returns the ConfigMap with the suite, and the CronJob.

    Raises:
        SubmitError: If the image is missing, the checkpoints are not on a mount, or the suite's files are too large.
        UserError: If a flag of the pod is malformed.
    """
    if watched.server.image is None:
        raise SubmitError("--checkpoints: give --image, one with lyncean[transformers] that loads the checkpoints")
    mounts = [word.partition(":")[2].rstrip("/") for word in watched.server.mounts]
    if not any(watched.pattern.startswith(f"{mount}/") for mount in mounts):
        raise SubmitError(
            f"--checkpoints {watched.pattern}: it is on no --mount CLAIM:/PATH; give the training's claim, and a "
            "pattern below its path"
        )
    files = _files(suite)
    metadata = {"namespace": watched.namespace, "labels": {SUITE: watched.name}}
    files_name = f"suite-{watched.name}-{hash_of(tuple(sorted(files.items())))}"
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": files_name, **metadata},
        "data": files,
    }
    labels = {NAME_LABEL: "checkpoints", SUITE: watched.name}
    job: dict[str, Any] = {
        "metadata": {"labels": {**labels, **({_QUEUE: watched.queue} if watched.queue else {})}},
        "spec": {
            # No retries: the next pod continues the same folder.
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": _pod(watched, suite.file.path.name, files_name)},
        },
    }
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": f"checkpoints-{watched.name}", **metadata},
        "spec": {
            "schedule": SCHEDULE,
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": job,
        },
    }
    return [configuration, cron]


def _files(suite: Suite) -> dict[str, str]:
    """Returns the contents of the suite and its task files by name; data is on the cluster."""
    texts = {suite.file.path.name: suite.file.path.read_text(encoding="utf-8")}
    for word in suite.file.values["tasks"]:
        path = suite.file.path.parent / word
        if str(word).endswith((".yaml", ".yml")) and path.is_file():
            if Path(word).name != word:
                raise SubmitError(f"{word}: put the task file beside the suite, from where it is taken to the pod")
            texts[word] = path.read_text(encoding="utf-8")
    if sum(len(text.encode()) for text in texts.values()) > _MOST:
        raise SubmitError(f"{', '.join(texts)}: more than the 256 KiB that `kubectl apply` takes in one ConfigMap")
    return texts


def _pod(watched: Watched, suite: str, files: str) -> dict[str, Any]:
    arguments = (
        *("eval", f"--suite={_SUITE}/{suite}", f"--checkpoints={watched.pattern}", "--until=now"),
        f"--run={_RUNS}/{watched.name}",
    )
    container = {
        "name": NAME,
        "command": ["orchestrator"],
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "HF_HUB_OFFLINE", "value": "1"}],  # noqa: S108
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "suite", "mountPath": _SUITE, "readOnly": True},
            {"name": "runs", "mountPath": _RUNS},
            {"name": "data", "mountPath": "/data", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "suite", "configMap": {"name": files}},
            {"name": "runs", "persistentVolumeClaim": {"claimName": "lyncean-runs"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "lyncean-data"}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    if watched.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in watched.pull_secrets]
    changed = replace(watched.server, arguments=arguments).changed(pod)
    changed["containers"][0]["name"] = "orchestrator"
    return changed
