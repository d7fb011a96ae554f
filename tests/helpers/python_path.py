"""Folders from which a process of a test imports."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
HIDING = ROOT / "tests" / "helpers" / "without_extensions"


def python_path(*folders: Path) -> str:
    """Joins folders and this process's own PYTHONPATH, which may hide the extensions, for a child's PYTHONPATH."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


def only_hiding() -> dict[str, str]:
    """Returns the environment without PYTHONPATH, but with what hides the extensions where they are hidden here."""
    hidden = str(HIDING) in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return others | ({"PYTHONPATH": str(HIDING)} if hidden else {})
