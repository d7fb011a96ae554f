"""What a cluster is asked and told, through kubectl."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from lyncean.errors import UserError, printable
from orchestrator.submit.objects import RUN, SERVERS, Manifest

_GIVEN_BY_CLUSTER = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_GIVEN_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


class SubmitError(UserError):
    """What was asked for cannot be rendered, or is not on the cluster. A configuration mistake."""


def kubectl(*words: str, text: str | None = None) -> str:
    """Runs kubectl and returns what it prints.

    Args:
        words: Its arguments.
        text: What it reads.

    Raises:
        SubmitError: If there is no kubectl, or it refuses.
    """
    if shutil.which("kubectl") is None:
        raise SubmitError("kubectl is not installed: `orchestrator submit` renders with its kustomize")
    process = subprocess.run(["kubectl", *words], input=text, capture_output=True, text=True, check=False)
    if process.returncode:
        said = (process.stderr.strip().splitlines() or ["failed"])[-1]
        raise SubmitError(f"kubectl {words[0]}: {printable(said)}")
    return process.stdout


def objects_of(run: str, namespace: str) -> list[Manifest]:
    """Returns a run's Jobs, pods and ConfigMaps, and those of the shared model servers that it uses.

    Raises:
        SubmitError: If there is no such run, or the cluster does not answer.
    """
    found = _get(f"{RUN}={run}", namespace)
    jobs = [one for one in found if one["kind"] == "Job"]
    if not jobs:
        raise SubmitError(f"no run {run!r} in namespace {namespace}: was the rendered run applied?")
    for servers in {job["spec"]["template"]["metadata"]["labels"].get(SERVERS) for job in jobs} - {None}:
        found += [one for one in _get(f"{SERVERS}={servers}", namespace) if RUN not in one["metadata"]["labels"]]
    return found


def delete(run: str, namespace: str) -> None:
    """Deletes all that belongs to a run; its folder and servers that are shared stay.

    Raises:
        SubmitError: If there is no such run, or the cluster refuses.
    """
    objects_of(run, namespace)
    kubectl("delete", f"--namespace={namespace}", "jobs,pods,configmaps", f"--selector={RUN}={run}")


def resume(run: str, namespace: str) -> list[str]:
    """Starts a run's failed Jobs anew: their pods go on with the run folders that are there.

    Returns:
        The names of the Jobs.

    Raises:
        SubmitError: If there is no such run, or the cluster refuses.
    """
    failed = [one for one in objects_of(run, namespace) if one["kind"] == "Job" and condition(one, "Failed")]
    for job in failed:
        name = job["metadata"]["name"]
        job.pop("status", None)
        job["spec"].pop("selector", None)
        for key in _GIVEN_BY_CLUSTER:
            job["metadata"].pop(key, None)
        for holder in (job["metadata"], job["spec"]["template"]["metadata"]):
            holder["labels"] = {key: word for key, word in holder["labels"].items() if key not in _GIVEN_LABELS}
        kubectl("delete", f"--namespace={namespace}", f"job/{name}", "--cascade=foreground")
        kubectl("create", f"--namespace={namespace}", "--filename=-", text=json.dumps(job))
    return [job["metadata"]["name"] for job in failed]


def condition(manifest: Manifest, kind: str) -> Manifest | None:
    """Returns a condition of an object if it holds."""
    conditions: list[Manifest] = manifest.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind and one["status"] == "True"), None)


def _get(selector: str, namespace: str) -> list[Manifest]:
    words = ("get", f"--namespace={namespace}", "jobs,pods,configmaps", f"--selector={selector}", "--output=json")
    items: list[Any] = json.loads(kubectl(*words))["items"]
    return items
