"""How a run on a cluster goes: its shards, and the pods that do not come up."""

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
"""Exit codes: the run is complete, it is not, and its pods do not come up."""
_POLL = 10.0
_INDEX = "batch.kubernetes.io/job-completion-index"
_STUCK = (
    *("ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "CrashLoopBackOff"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
)
"""Reasons of a container that waits and will not start without somebody's help."""


def act(action: str, applied: Applied, patience: float) -> int:
    """Does what --watch, --status, --resume or --delete asks of a run or suite; returns the exit code."""
    if action == "watch":
        return watch(applied, patience)
    if action == "status":
        runs = applied.runs()
        print("\n".join(states(runs, applied.namespace)))
        return max(ended(found, applied.namespace) or 0 for found in runs.values())
    if action == "resume":
        jobs = applied.resume()
        print(f"started anew: {', '.join(jobs)}" if jobs else f"no Job of {applied.name} has failed")
        return 0
    applied.delete()
    print(f"{applied.name} is deleted; its folder, and servers that are shared, stay")
    return 0


def watch(applied: Applied, patience: float) -> int:
    """Prints how a run goes until it has ended, or all runs of a suite.

    Returns:
        0 if all is complete, 3 if a run has failed, 5 if for `patience` seconds no pod runs and some do not come up.

    Raises:
        SubmitError: If there is no kubectl, or no such run or suite.
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
        for run, found in runs.items():
            if run not in codes and (code := ended(found, applied.namespace)) is not None:
                codes[run] = code
        if codes.keys() >= runs.keys():
            return max(codes.values())
        pods = [pod for run, found in runs.items() if run not in codes for pod in _pods(found)]
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
    for run, found in sorted(runs.items()):
        # Shared servers are of several runs, as weights that another run loads, and said once.
        own = [one for one in found if one["metadata"]["labels"].get(RUN, "" if lines else run) == run]
        found_lines = state(own, run, namespace)
        lines += [f"{run}: {line}" for line in found_lines] if len(runs) > 1 else found_lines
    return lines


def state(found: Sequence[Manifest], run: str, namespace: str) -> list[str]:
    """Returns a line about each Job and each pod that has not ended."""
    lines = []
    last_lines = _last_lines(run, namespace) if any(_running(pod) for pod in _pods(found)) else {}
    for job in (one for one in found if one["kind"] == "Job"):
        status, parts = job.get("status", {}), job["spec"].get("completions") or 1
        failed = status.get("failedIndexes")
        words = f"{job['metadata']['name']}: {status.get('succeeded', 0)} of {parts} complete"
        words += f", {status['active']} active" if status.get("active") else ""
        words += f", shards {failed} failed" if failed else ""
        words += ", queued" if job["spec"].get("suspend") else ""
        lines.append(printable(words))
    for pod in _pods(found):
        name = pod["metadata"]["name"]
        index = pod["metadata"].get("annotations", {}).get(_INDEX)
        who = name if index is None else f"shard {index}"
        if stuck := problems(pod):
            lines.append(f"{who}: {'; '.join(stuck)}")
        elif name in last_lines:
            lines.append(f"{who}: {last_lines[name]}")
    return lines


def problems(pod: Manifest) -> list[str]:
    """Returns why a pod does not come up; nothing if it does, or may still."""
    status, found = pod.get("status", {}), []
    for one in status.get("conditions", ()):
        if (one["type"], one["status"], one.get("reason")) == ("PodScheduled", "False", "Unschedulable"):
            message = one.get("message", "")
            found.append(f"{'claim pending' if 'PersistentVolumeClaim' in message else 'unschedulable'}: {message}")
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _STUCK:
            words = f"{container['name']}: {waiting['reason']}"
            words += f": {waiting['message']}" if waiting.get("message") else ""
            last = container.get("lastState", {}).get("terminated", {})
            if last.get("reason") == "OOMKilled":
                words += " (OOMKilled: it needed more memory than its limit)"
            elif code := last.get("exitCode"):
                words += (
                    f" (exit code {code}: kubectl logs {pod['metadata']['name']} -c {container['name']} --previous)"
                )
            found.append(words)
    return [printable(" ".join(words.split())) for words in found]


def ended(found: Sequence[Manifest], namespace: str) -> int | None:
    """Says how a run has ended, if it has: with its last Job, or one that this would wait for in vain."""
    jobs = {job["metadata"]["labels"][NAME_LABEL]: job for job in found if job["kind"] == "Job"}
    last = jobs.get("merge", jobs["orchestrator"])
    if condition(last, "Complete"):
        folder = folder_of(found)
        where = "" if "://" in folder else " on the claim lyncean-runs, and --get brings it"
        print(f"{last['metadata']['name']} is complete: the report is {folder}/report.html{where}")
        if GROUPED in last["metadata"]["labels"]:
            print("its model servers hold their GPUs until --delete")
        return COMPLETE
    # Weights that another Job brought since are as good.
    waited = [jobs[name] for name in ("orchestrator", LOADING) if name in jobs]
    if any(_running(pod) for pod in _pods(found)):
        waited = waited[:1]
    for job in (*waited, last):
        if failed := condition(job, "Failed"):
            name = job["metadata"]["name"]
            print(f"{name} has failed: {printable(failed.get('message', ''))}", file=sys.stderr)
            print(f"kubectl describe --namespace={namespace} job/{name}; --resume goes on with it", file=sys.stderr)
            return FAILED
    return None


def _pods(found: Sequence[Manifest]) -> list[Manifest]:
    return [
        one
        for one in found
        if one["kind"] == "Pod"
        and one.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        and "deletionTimestamp" not in one["metadata"]
    ]


def _running(pod: Manifest) -> bool:
    """Whether the orchestrator of a run's pod is running."""
    return any(
        container["name"] == "orchestrator" and "running" in container.get("state", {})
        for container in pod.get("status", {}).get("containerStatuses", ())
    )


def _last_lines(run: str, namespace: str) -> dict[str, str]:
    """Returns the last line that each pod's orchestrator has written."""
    selector = f"--selector={RUN}={run},{NAME_LABEL}=orchestrator"  # a pod without that container would end it
    words = (f"--namespace={namespace}", selector, "--container=orchestrator", "--tail=1", "--prefix")
    try:
        text = kubectl("logs", *words, "--max-log-requests=1000", "--ignore-errors")
    except SubmitError:  # a pod ended between two questions
        return {}
    found = (re.fullmatch(r"\[pod/([^/]+)/orchestrator\] (.*)", line) for line in text.splitlines())
    return {match[1]: printable(match[2]) for match in found if match}
