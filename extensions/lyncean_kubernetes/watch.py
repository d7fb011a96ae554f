"""Progress of a run on a cluster: its shards, and the pods that do not come up."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence

from lyncean.errors import printable
from lyncean_kubernetes.kubectl import Applied, SubmitError, condition, folder_of, kubectl
from lyncean_kubernetes.nodes import GROUPED
from lyncean_kubernetes.objects import NAME_LABEL, RUN, Manifest
from lyncean_kubernetes.server import LOADING

COMPLETE, FAILED, NOT_UP = 0, 3, 5
"""Exit codes: the run is complete, the run has failed, its pods do not come up."""
_POLL = 10.0
_INDEX = "batch.kubernetes.io/job-completion-index"
_STUCK = (
    *("ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "CrashLoopBackOff"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
)
"""Reasons of a waiting container that will not start until somebody intervenes."""


def act(action: str, applied: Applied, patience: float) -> int:
    """Runs --watch, --status, --resume or --delete on a run or suite; returns the exit code."""
    if action == "watch":
        return watch(applied, patience)
    if action == "status":
        runs = applied.runs()
        print("\n".join(states(runs, applied.namespace)))
        return max(ended(objects, applied.namespace) or 0 for objects in runs.values())
    if action == "resume":
        jobs = applied.resume()
        print(f"started anew: {', '.join(jobs)}" if jobs else f"no Job of {applied.name} has failed")
        return 0
    applied.delete()
    print(f"{applied.name} is deleted; its folder, and servers that are shared, stay")
    return 0


def watch(applied: Applied, patience: float) -> int:
    """Prints the progress of a run, or of all runs of a suite, until they have ended.

    Returns:
        0 if all runs are complete, 3 if one has failed, 5 if no pod runs for `patience` seconds and one is stuck.

    Raises:
        SubmitError: If kubectl is missing, or the run or suite does not exist.
    """
    before: list[str] = []
    codes: dict[str, int] = {}
    since = time.monotonic()
    while True:
        runs = applied.runs()
        lines = states(runs, applied.namespace)
        for line in lines:
            if line not in before:
                print(line, flush=True)
        before = lines
        for run, objects in runs.items():
            if run not in codes and (code := ended(objects, applied.namespace)) is not None:
                codes[run] = code
        if codes.keys() >= runs.keys():
            return max(codes.values())
        pods = [pod for run, objects in runs.items() if run not in codes for pod in _pods(objects)]
        stuck = [pod for pod in pods if problems(pod)]
        if not stuck or any(_running(pod) for pod in pods):
            since = time.monotonic()
        elif time.monotonic() - since >= patience:
            for pod in stuck:
                print(f"{pod['metadata']['name']}: {'; '.join(problems(pod))}", file=sys.stderr)
            late = f"no pod of {applied.name} has come up within {patience:g} s"
            print(f"{late}; --delete takes the {applied.kind} away", file=sys.stderr)
            return NOT_UP
        time.sleep(_POLL)


def states(runs: Mapping[str, Sequence[Manifest]], namespace: str) -> list[str]:
    """Returns the lines of `state` of several runs, each with the run's name where there are several."""
    lines: list[str] = []
    for run, objects in sorted(runs.items()):
        # Several runs have the same shared servers or weights: their lines are printed once.
        run_objects = [one for one in objects if one["metadata"]["labels"].get(RUN, "" if lines else run) == run]
        run_lines = state(run_objects, run, namespace)
        lines += [f"{run}: {line}" for line in run_lines] if len(runs) > 1 else run_lines
    return lines


def state(objects: Sequence[Manifest], run: str, namespace: str) -> list[str]:
    """Returns a line about each Job and each pod that has not ended."""
    lines = []
    last_lines = _last_lines(run, namespace) if any(_running(pod) for pod in _pods(objects)) else {}
    for job in (one for one in objects if one["kind"] == "Job"):
        status, parts = job.get("status", {}), job["spec"].get("completions") or 1
        failed = status.get("failedIndexes")
        line = f"{job['metadata']['name']}: {status.get('succeeded', 0)} of {parts} complete"
        line += f", {status['active']} active" if status.get("active") else ""
        line += f", shards {failed} failed" if failed else ""
        line += ", queued" if job["spec"].get("suspend") else ""
        lines.append(printable(line))
    for pod in _pods(objects):
        name = pod["metadata"]["name"]
        index = pod["metadata"].get("annotations", {}).get(_INDEX)
        who = name if index is None else f"shard {index}"
        if stuck := problems(pod):
            lines.append(f"{who}: {'; '.join(stuck)}")
        elif name in last_lines:
            lines.append(f"{who}: {last_lines[name]}")
    return lines


def problems(pod: Manifest) -> list[str]:
    """Returns the reasons why a pod does not come up; [] if it runs or may still start."""
    status, reasons = pod.get("status", {}), []
    for one in status.get("conditions", ()):
        if (one["type"], one["status"], one.get("reason")) == ("PodScheduled", "False", "Unschedulable"):
            message = one.get("message", "")
            reasons.append(f"{'claim pending' if 'PersistentVolumeClaim' in message else 'unschedulable'}: {message}")
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _STUCK:
            reason = f"{container['name']}: {waiting['reason']}"
            reason += f": {waiting['message']}" if waiting.get("message") else ""
            last = container.get("lastState", {}).get("terminated", {})
            if last.get("reason") == "OOMKilled":
                reason += " (OOMKilled: it needed more memory than its limit)"
            elif code := last.get("exitCode"):
                reason += (
                    f" (exit code {code}: kubectl logs {pod['metadata']['name']} -c {container['name']} --previous)"
                )
            reasons.append(reason)
    return [printable(" ".join(reason.split())) for reason in reasons]


def ended(objects: Sequence[Manifest], namespace: str) -> int | None:
    """Prints the outcome of a run and returns its exit code; None while it is going on.

    A run ends with its last Job, or with the failure of a Job that the last one waits for.
    """
    jobs = {job["metadata"]["labels"][NAME_LABEL]: job for job in objects if job["kind"] == "Job"}
    last = jobs.get("merge", jobs["orchestrator"])
    if condition(last, "Complete"):
        folder = folder_of(objects)
        where = "" if "://" in folder else " on the claim lyncean-runs, and --get brings it"
        print(f"{last['metadata']['name']} is complete: the report is {folder}/report.html{where}")
        if GROUPED in last["metadata"]["labels"]:
            print("its model servers hold their GPUs until --delete")
        return COMPLETE
    # A running orchestrator has its weights, so a failed download does not matter.
    waited = [jobs[name] for name in ("orchestrator", LOADING) if name in jobs]
    if any(_running(pod) for pod in _pods(objects)):
        waited = waited[:1]
    for job in (*waited, last):
        if failed := condition(job, "Failed"):
            name = job["metadata"]["name"]
            print(f"{name} has failed: {printable(failed.get('message', ''))}", file=sys.stderr)
            print(f"kubectl describe --namespace={namespace} job/{name}; --resume goes on with it", file=sys.stderr)
            return FAILED
    return None


def _pods(objects: Sequence[Manifest]) -> list[Manifest]:
    return [
        one
        for one in objects
        if one["kind"] == "Pod"
        and one.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        and "deletionTimestamp" not in one["metadata"]
    ]


def _running(pod: Manifest) -> bool:
    """Returns True if the orchestrator of a run's pod is running."""
    return any(
        container["name"] == "orchestrator" and "running" in container.get("state", {})
        for container in pod.get("status", {}).get("containerStatuses", ())
    )


def _last_lines(run: str, namespace: str) -> dict[str, str]:
    """Returns the last log line of each orchestrator by the name of its pod."""
    selector = f"--selector={RUN}={run},{NAME_LABEL}=orchestrator"  # kubectl fails at a pod without that container
    options = (f"--namespace={namespace}", selector, "--container=orchestrator", "--tail=1", "--prefix")
    try:
        text = kubectl("logs", *options, "--max-log-requests=1000", "--ignore-errors")
    except SubmitError:  # a pod ended after it was listed
        return {}
    matches = (re.fullmatch(r"\[pod/([^/]+)/orchestrator\] (.*)", line) for line in text.splitlines())
    return {match[1]: printable(match[2]) for match in matches if match}
