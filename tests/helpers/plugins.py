"""Packages with rules and metrics of their own, installed for a scorer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from helpers.python_path import python_path


def install(folder: Path, code: str, entries: str) -> dict[str, str]:
    """Writes an installed distribution into a folder; returns the environment that finds it."""
    (folder / "my_plugin.py").write_text(code)
    info = folder / "my_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    return {**os.environ, "PYTHONPATH": python_path(folder)}


def scorer(environment: dict[str, str], *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scorer", *arguments]
    return subprocess.run(
        command, input=given, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
