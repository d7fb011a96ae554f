"""A stand-in for kubectl and its cluster, which goes through stages."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from helpers.manifests import Manifest

# Each `get` shows the next stage, the last one again and again, of what the selector selects.
KUBECTL = """#!{python}
import json, pathlib, sys
here, words = pathlib.Path({folder!r}), sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")
options = dict(word.partition("=")[::2] for word in words)
if words[0] == "get":
    stages = json.loads((here / "stages").read_text())
    label, _, value = options["--selector"].partition("=")
    found = [one for one in stages[0] if one["metadata"].get("labels", {{}}).get(label) == value]
    (here / "stages").write_text(json.dumps(stages[1:] or stages))
    print(json.dumps({{"items": found}}))
elif words[0] == "logs":
    print((here / "logs").read_text())
elif words[0] == "create":
    (here / "created").write_text(sys.stdin.read())
elif words[0] == "wait" and (here / "no-pod").exists():
    sys.exit("error: timed out waiting for the condition")
elif words[0] == "cp":
    pathlib.Path(words[3]).mkdir()
"""

RUNNING = {"name": "orchestrator", "state": {"running": {}}}


def cluster(folder: Path, *stages: list[Manifest], logs: str = "") -> dict[str, str]:
    """A kubectl that shows these stages of a cluster."""
    (folder / "stages").write_text(json.dumps(stages))
    (folder / "logs").write_text(logs)
    (folder / "kubectl").write_text(KUBECTL.format(python=sys.executable, folder=str(folder)))
    (folder / "kubectl").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def ended(kind: str, message: str = "", **more: Any) -> Manifest:
    return {"conditions": [{"type": kind, "status": "True", "message": message}], **more}


def pod(name: str, *containers: Manifest, index: int | None = None, label: str = "first", **status: Any) -> Manifest:
    notes = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
    labels = {
        "lyncean.dev/run": label,
        "app.kubernetes.io/name": "merge" if name.startswith("merge") else "orchestrator",
    }
    metadata = {"name": name, "namespace": "lyncean", "labels": labels, "annotations": notes}
    phase = {"phase": "Pending", "containerStatuses": list(containers)}
    return {"kind": "Pod", "metadata": metadata, "status": {**phase, **status}}


def waiting(name: str, reason: str, message: str = "", code: int | None = None) -> Manifest:
    last = {} if code is None else {"lastState": {"terminated": {"exitCode": code}}}
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}, **last}
