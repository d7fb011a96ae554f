"""Queries and changes of a cluster, through kubectl."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lyncean.errors import UserError, printable
from lyncean_kubernetes.nodes import GROUPED
from lyncean_kubernetes.objects import NAME_LABEL, RUN, SERVERS, SUITE, Manifest, pod_of
from lyncean_kubernetes.server import LOADING

_GIVEN_BY_CLUSTER = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_GIVEN_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


class SubmitError(UserError):
    """What was asked for cannot be rendered, or is not on the cluster. A configuration mistake."""


def kubectl(*words: str, text: str | None = None) -> str:
    """Runs kubectl with `text` as its standard input and returns what it prints.

    Raises:
        SubmitError: If there is no kubectl, or it refuses.
    """
    if shutil.which("kubectl") is None:
        raise SubmitError("kubectl is not installed: `orchestrator submit` renders with its kustomize")
    process = subprocess.run(["kubectl", *words], input=text, capture_output=True, text=True, check=False)
    if process.returncode:
        last_line = (process.stderr.strip().splitlines() or ["failed"])[-1]
        raise SubmitError(f"kubectl {words[0]}: {printable(last_line)}")
    return process.stdout


@dataclass(frozen=True, slots=True)
class Applied:
    """A run or a suite on a cluster. Each method raises a `SubmitError` if it is not there, or the cluster refuses."""

    name: str
    namespace: str
    suite: bool = False

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return "suite" if self.suite else "run"

    @property
    def selector(self) -> str:
        """Selects all that belongs to it."""
        return f"{SUITE if self.suite else RUN}={self.name}"

    def kubectl(self, verb: str, *words: str, text: str | None = None) -> str:
        """Runs kubectl in its namespace, as the function `kubectl` does."""
        return kubectl(verb, f"--namespace={self.namespace}", *words, text=text)

    def _get(self, selector: str) -> list[Manifest]:
        text = self.kubectl("get", "jobs,pods,configmaps", f"--selector={selector}", "--output=json")
        items: list[Manifest] = json.loads(text)["items"]
        return items

    def _absent(self) -> SubmitError:
        return SubmitError(
            f"no {self.kind} {self.name!r} in namespace {self.namespace}: was the rendered {self.kind} applied?"
        )

    def objects(self) -> list[Manifest]:
        """Returns its Jobs, pods and ConfigMaps, and those of the shared model servers that it uses."""
        found = self._get(self.selector)
        jobs = [one for one in found if one["kind"] == "Job"]
        if not jobs:
            raise self._absent()
        for servers in {job["spec"]["template"]["metadata"]["labels"].get(SERVERS) for job in jobs} - {None}:
            found += [one for one in self._get(f"{SERVERS}={servers}") if RUN not in one["metadata"]["labels"]]
        return found

    def runs(self) -> dict[str, list[Manifest]]:
        """Returns the objects of each of its runs by name, those of servers and weights that it waits for included."""
        if not self.suite:
            return {self.name: self.objects()}
        runs: dict[str, list[Manifest]] = {}
        shared = []
        for one in self.objects():
            if run := one["metadata"]["labels"].get(RUN):
                runs.setdefault(run, []).append(one)
            else:
                shared.append(one)
        loaders = {_model(found): job for found in runs.values() for job in found if _is_loader(job)}
        for found in runs.values():
            used = {one["spec"]["template"]["metadata"]["labels"].get(SERVERS) for one in found if one["kind"] == "Job"}
            found += [one for one in shared if one["metadata"]["labels"].get(SERVERS) in used]
            # The weights of a model are loaded by a Job of its first run.
            if not any(map(_is_loader, found)) and (loader := loaders.get(_model(found))):
                found.append(loader)
        return runs

    def delete(self) -> None:
        """Deletes all that belongs to it; folders and servers that are shared stay."""
        found = self._get(self.selector)
        if not found:
            raise self._absent()
        if any(GROUPED in one["metadata"]["labels"] for one in found):
            self.kubectl("delete", "leaderworkersets,services,poddisruptionbudgets", f"--selector={self.selector}")
        # kubectl waits until the pods have ended: an image is shut in as long as it runs.
        for kinds in ("jobs,pods", "configmaps,networkpolicies"):
            self.kubectl("delete", kinds, f"--selector={self.selector}")

    def resume(self) -> list[str]:
        """Starts its failed Jobs anew and returns their names: their pods go on with the run folders that are there."""
        failed = [one for one in self.objects() if one["kind"] == "Job" and condition(one, "Failed")]
        for job in failed:
            job.pop("status", None)
            job["spec"].pop("selector", None)
            for key in _GIVEN_BY_CLUSTER:
                job["metadata"].pop(key, None)
            for holder in (job["metadata"], job["spec"]["template"]["metadata"]):
                holder["labels"] = {key: word for key, word in holder["labels"].items() if key not in _GIVEN_LABELS}
            self.kubectl("delete", f"job/{job['metadata']['name']}", "--cascade=foreground")
            self.kubectl("create", "--validate=false", "--filename=-", text=json.dumps(job))
        return [job["metadata"]["name"] for job in failed]

    def get(self, folder: Path) -> None:
        """Copies a run's folder, or that of its merged shards, from the claim to `folder`, which must not exist."""
        if folder.exists():
            raise SubmitError(f"{folder} is there already: give --get a new folder")
        found = self.objects()
        jobs = {job["metadata"]["labels"][NAME_LABEL]: job for job in found if job["kind"] == "Job"}
        remote = folder_of(found)
        if "://" in remote:
            raise SubmitError(f"{self.name} is in {remote}: `orchestrator report` and `compare` read it there")
        if "merge" in jobs and not condition(jobs["merge"], "Complete"):
            raise SubmitError(f"{self.name} is not merged yet: --watch says how it goes")
        self.copy({remote: folder}, jobs.get("merge", jobs["orchestrator"]))

    def copy(self, folders: Mapping[str, Path], job: Manifest) -> None:
        """Copies folders from the claim of a Job's run folders to new ones, through a pod that mounts it meanwhile."""
        pod = _mounting(job, self.name)
        name = pod["metadata"]["name"]
        self.kubectl("create", "--validate=false", "--filename=-", text=json.dumps(pod))
        try:
            self.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=300s")
            for remote, folder in folders.items():
                self.kubectl("cp", f"{name}:{remote}", str(folder), "--retries=3")
        finally:
            self.kubectl("delete", f"pod/{name}", "--wait=false")


def _is_loader(one: Manifest) -> bool:
    return bool(one["kind"] == "Job" and one["metadata"]["labels"].get(NAME_LABEL) == LOADING)


def _model(found: Sequence[Manifest]) -> str:
    """Returns what model servers of a run load, "" where it has none."""
    maps = (one.get("data", {}) for one in found if one["kind"] == "ConfigMap")
    return next((data["MODEL"] for data in maps if "MODEL" in data), "")


def folder_of(found: Sequence[Manifest]) -> str:
    """Returns the folder in which a run's report is, or will be: a path on the claim, or a URL."""
    folders = (one["data"]["RUN"] for one in found if one["kind"] == "ConfigMap" and "RUN" in one.get("data", {}))
    merged = any(one["kind"] == "Job" and one["metadata"]["labels"][NAME_LABEL] == "merge" for one in found)
    return next(folders, "") + ("/merged" if merged else "")


def _mounting(job: Manifest, run: str) -> Manifest:
    """Returns a pod that does nothing but mount a Job's run folders."""
    pod_spec = pod_of(job)
    (main,) = pod_spec["containers"]
    container = {
        "name": "get",
        "image": main["image"],
        "command": ["sleep", "3600"],
        "securityContext": main["securityContext"],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [mount for mount in main["volumeMounts"] if mount["name"] == "runs"],
    }
    keys = ("serviceAccountName", "automountServiceAccountToken", "securityContext", "imagePullSecrets")
    spec = {
        **{key: pod_spec[key] for key in keys if key in pod_spec},
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 3600,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "volumes": [volume for volume in pod_spec["volumes"] if volume["name"] == "runs"],
    }
    metadata = {"name": f"get-{run}", "labels": {RUN: run, NAME_LABEL: "get"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def condition(manifest: Manifest, kind: str) -> Manifest | None:
    """Returns a condition of an object if it holds."""
    conditions: list[Manifest] = manifest.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind and one["status"] == "True"), None)
