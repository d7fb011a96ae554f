"""Follows a submitted run with kubectl."""

from __future__ import annotations

import shutil
import subprocess
import sys

from orchestrator.submit.render import Submission, SubmitError

_POLL = "10s"


def watch(submission: Submission) -> int:
    """Follows the log of the run's last Job until the Job has ended.

    Returns:
        0 if it is complete, 3 if it is not: `kubectl describe` says why.

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
        for state in ("Complete", "Failed"):
            waited = subprocess.run(
                ["kubectl", "wait", namespace, job, f"--for=condition={state}", "--timeout=0s"],
                capture_output=True,
                check=False,
            )
            if waited.returncode == 0:
                return _told(submission, state)
        follow = ["kubectl", "logs", namespace, job, "--all-containers", "--follow", "--tail=20", "--ignore-errors"]
        subprocess.run([*follow, f"--pod-running-timeout={_POLL}"], check=False)
        subprocess.run(
            ["kubectl", "wait", namespace, job, "--for=condition=Complete", f"--timeout={_POLL}"],
            capture_output=True,
            check=False,
        )


def _told(submission: Submission, state: str) -> int:
    if state == "Complete":
        folder = f"/runs/{submission.name}{'/merged' if submission.shards else ''}"
        print(f"{submission.last_job} is complete: the report is {folder}/report.html on the claim lynceus-runs")
        return 0
    hint = f"kubectl describe --namespace={submission.namespace} job/{submission.job}"
    print(f"{submission.last_job} has failed: {hint}", file=sys.stderr)
    return 3
