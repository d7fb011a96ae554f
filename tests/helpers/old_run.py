"""Runs as they were stored before the product had its name, brought to the form of today.

Only tests read such runs: nothing of that time was released.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrator.run_folder.lines import sealed

_PACKAGE = "lynceus"


def convert(run: Path) -> None:
    """Rewrites a stored run in place: names are those of today, and lines have their checksum."""
    path = run / "manifest.json"
    manifest: dict[str, Any] = json.loads(path.read_text())
    versions = manifest.get("versions", {})
    if _PACKAGE in versions:
        versions["lyncean"] = versions.pop(_PACKAGE)
    path.write_text(json.dumps(manifest))
    path = run / "results.json"
    if path.exists():
        results: dict[str, Any] = json.loads(path.read_text())
        for task in results["tasks"].values():
            task["metrics"] = task.pop("figures")
        path.write_text(json.dumps(results))
    for name in ("responses.jsonl", "verdicts.jsonl"):
        path = run / name
        if path.exists():
            path.write_bytes(b"".join(sealed(line) + b"\n" for line in path.read_bytes().splitlines()))
