"""Runs `orchestrator import` and reads what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from orchestrator.cli import main


def run_import(kind: str, *arguments: object) -> Result:
    return CliRunner().invoke(main, ["import", kind, *map(str, arguments)])


def verdicts(run: Path) -> dict[str, dict[str, Any]]:
    return {line["key"]: line for line in map(json.loads, (run / "verdicts.jsonl").read_text().splitlines())}


def accuracy(run: Path) -> float:
    (task,) = json.loads((run / "results.json").read_text())["tasks"].values()
    return float(task["metrics"][0]["value"])
