"""Follows a submitted run with kubectl."""

from __future__ import annotations

import shutil
import subprocess
import sys

from orchestrator.submit.render import Submission, SubmitError
from orchestrator.submit.server import LOADING

_POLL = 10.0


def watch(submission: Submission) -> int:
    """Follows the log of the run's last Job until it has ended, or the Job of shards or weights has failed.

    Returns:
        0 if the run is complete, 3 if it is not: `kubectl describe` says why.

    Raises:
        SubmitError: If there is no kubectl, or no such Job.
    """
    if shutil.which("kubectl") is None:
        raise SubmitError("kubectl is not installed: --watch follows the log with it")
    job, namespace = f"job/{submission.last_job}", f"--namespace={submission.namespace}"
    found = subprocess.run(["kubectl", "get", namespace, job], capture_output=True, text=True, check=False)
    if found.returncode:
        reason = (found.stderr.strip().splitlines() or ["kubectl failed"])[-1]
        raise SubmitError(f"{job} in {submission.namespace}: {reason}; was the rendered run applied?")
    while True:
        # A log ends with its pod; the Job may go on in another one.
        if ended := _ended(submission):
            return _report_state(submission, *ended)
        _follow(submission)
        _reached(submission, f"job/{submission.last_job}", "Complete", _POLL)


def _ended(submission: Submission) -> tuple[str, str] | None:
    """The Job that decides the run and its state: the last one, or one that it would wait for in vain."""
    last, weights = submission.last_job, f"{LOADING}-{submission.name}"
    if submission.shards and _reached(submission, f"job/{submission.job}", "Failed"):
        return submission.job, "Failed"
    for state in ("Complete", "Failed"):
        if _reached(submission, f"job/{last}", state):
            return last, state
    # Somebody may have brought the weights since.
    lost = _reached(submission, f"job/{weights}", "Failed")
    return (weights, "Failed") if lost and not _reached(submission, "deployment/model-server", "Available") else None


def _follow(submission: Submission) -> None:
    """Prints the log of the last Job's pod to its end, or until a Job has failed that the pod waits for."""
    words = [f"--namespace={submission.namespace}", f"job/{submission.last_job}", "--all-containers", "--tail=20"]
    words += ["--follow", "--ignore-errors", f"--pod-running-timeout={_POLL}s"]
    with subprocess.Popen(["kubectl", "logs", *words]) as log:
        while log.poll() is None:
            try:
                log.wait(_POLL)
            except subprocess.TimeoutExpired:
                ended = _ended(submission)
                if ended and ended[0] != submission.last_job:
                    log.terminate()
                    return


def _reached(submission: Submission, what: str, state: str, seconds: float = 0) -> bool:
    words = [f"--namespace={submission.namespace}", what, f"--for=condition={state}", f"--timeout={seconds}s"]
    return subprocess.run(["kubectl", "wait", *words], capture_output=True, check=False).returncode == 0


def _report_state(submission: Submission, job: str, state: str) -> int:
    if state == "Complete":
        folder = f"/runs/{submission.name}{'/merged' if submission.shards else ''}"
        print(f"{job} is complete: the report is {folder}/report.html on the claim lyncean-runs")
        return 0
    print(f"{job} has failed: kubectl describe --namespace={submission.namespace} job/{job}", file=sys.stderr)
    return 3
