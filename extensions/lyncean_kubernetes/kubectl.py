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

_SET_BY_CLUSTER = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_SET_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


class SubmitError(UserError):
    """A run or suite cannot be rendered, or is not on the cluster."""


def kubectl(*arguments: str, text: str | None = None) -> str:
    """Runs kubectl with `text` as its standard input and returns what it prints.

    Raises:
        SubmitError: If kubectl is missing or fails.
    """
    if shutil.which("kubectl") is None:
        raise SubmitError("kubectl is not installed: `orchestrator submit` renders with its kustomize")
    process = subprocess.run(["kubectl", *arguments], input=text, capture_output=True, text=True, check=False)
    if process.returncode:
        last_line = (process.stderr.strip().splitlines() or ["failed"])[-1]
        raise SubmitError(f"kubectl {arguments[0]}: {printable(last_line)}")
    return process.stdout


@dataclass(frozen=True, slots=True)
class Applied:
    """A run or a suite on a cluster. Each method raises a `SubmitError` if it is missing, or the cluster refuses."""

    name: str
    namespace: str
    suite: bool = False

    @property
    def kind(self) -> str:
        """The word for it in messages."""
        return "suite" if self.suite else "run"

    @property
    def selector(self) -> str:
        """The label selector of its objects."""
        return f"{SUITE if self.suite else RUN}={self.name}"

    def kubectl(self, verb: str, *arguments: str, text: str | None = None) -> str:
        """Runs kubectl in its namespace, as the function `kubectl` does."""
        return kubectl(verb, f"--namespace={self.namespace}", *arguments, text=text)

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
        objects = self._get(self.selector)
        jobs = [one for one in objects if one["kind"] == "Job"]
        if not jobs:
            raise self._absent()
        for servers in {job["spec"]["template"]["metadata"]["labels"].get(SERVERS) for job in jobs} - {None}:
            objects += [one for one in self._get(f"{SERVERS}={servers}") if RUN not in one["metadata"]["labels"]]
        return objects

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
        loaders = {_model(objects): job for objects in runs.values() for job in objects if _is_loader(job)}
        for objects in runs.values():
            used = {
                one["spec"]["template"]["metadata"]["labels"].get(SERVERS) for one in objects if one["kind"] == "Job"
            }
            objects += [one for one in shared if one["metadata"]["labels"].get(SERVERS) in used]
            # Only the first run of a model has the Job that loads its weights.
            if not any(map(_is_loader, objects)) and (loader := loaders.get(_model(objects))):
                objects.append(loader)
        return runs

    def delete(self) -> None:
        """Deletes its objects; run folders and shared servers stay."""
        objects = self._get(self.selector)
        if not objects:
            raise self._absent()
        kinds = ["jobs,pods", "configmaps,networkpolicies"]
        if any(GROUPED in one["metadata"]["labels"] for one in objects):
            self._delete_groups()
            kinds.insert(0, "services,poddisruptionbudgets")
        # kubectl waits until the pods have ended, so that policies restrict an image for as long as it runs.
        for names in kinds:
            self.kubectl("delete", names, f"--selector={self.selector}")

    def _delete_groups(self) -> None:
        try:
            self.kubectl("delete", "leaderworkersets", f"--selector={self.selector}")
        except SubmitError as error:
            if "have a resource type" not in str(error):
                raise
            # The operator is not installed: `kubectl apply` has made all but the groups.

    def resume(self) -> list[str]:
        """Restarts its failed Jobs and returns their names; their pods continue the existing run folders."""
        failed = [one for one in self.objects() if one["kind"] == "Job" and condition(one, "Failed")]
        for job in failed:
            job.pop("status", None)
            job["spec"].pop("selector", None)
            for key in _SET_BY_CLUSTER:
                job["metadata"].pop(key, None)
            for holder in (job["metadata"], job["spec"]["template"]["metadata"]):
                holder["labels"] = {key: word for key, word in holder["labels"].items() if key not in _SET_LABELS}
            self.kubectl("delete", f"job/{job['metadata']['name']}", "--cascade=foreground")
            self.kubectl("create", "--validate=false", "--filename=-", text=json.dumps(job))
        return [job["metadata"]["name"] for job in failed]

    def get(self, folder: Path) -> None:
        """Copies a run's folder, or that of its merged shards, from the claim to `folder`, which must not exist."""
        if folder.exists():
            raise SubmitError(f"{folder} is there already: give --get a new folder")
        objects = self.objects()
        jobs = {job["metadata"]["labels"][NAME_LABEL]: job for job in objects if job["kind"] == "Job"}
        remote = folder_of(objects)
        if "://" in remote:
            raise SubmitError(f"{self.name} is in {remote}: `orchestrator report` and `compare` read it there")
        if "merge" in jobs and not condition(jobs["merge"], "Complete"):
            raise SubmitError(f"{self.name} is not merged yet: --watch says how it goes")
        self.copy({remote: folder}, jobs.get("merge", jobs["orchestrator"]))

    def copy(self, folders: Mapping[str, Path], job: Manifest) -> None:
        """Copies folders from the claim of a Job's run folders to new ones, through a temporary pod that mounts it."""
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


def _model(objects: Sequence[Manifest]) -> str:
    """Returns the model that the servers of a run load, "" for a run without servers."""
    maps = (one.get("data", {}) for one in objects if one["kind"] == "ConfigMap")
    return next((data["MODEL"] for data in maps if "MODEL" in data), "")


def folder_of(objects: Sequence[Manifest]) -> str:
    """Returns the folder in which a run's report is, or will be: a path on the claim, or a URL."""
    folders = (one["data"]["RUN"] for one in objects if one["kind"] == "ConfigMap" and "RUN" in one.get("data", {}))
    merged = any(one["kind"] == "Job" and one["metadata"]["labels"][NAME_LABEL] == "merge" for one in objects)
    return next(folders, "") + ("/merged" if merged else "")


def _mounting(job: Manifest, run: str) -> Manifest:
    """Returns an idle pod that mounts a Job's run folders."""
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
    """Returns a condition of an object if its status is True."""
    conditions: list[Manifest] = manifest.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind and one["status"] == "True"), None)
