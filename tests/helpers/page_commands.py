"""The commands of pages, one a line, as a reader would type them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELLS = {"sh", "bash", "console"}
PROGRAMS = "orchestrator|scorer|model-server|python|make|docker|kubectl|kind|grpcurl|npm|cmake|pip|inspect"
_STAMPS = [f"--old-file=.venv/.{name}" for name in ("demo", "test", "installed")]
_TYPED = re.compile(rf"(\w+=\S+ )*({PROGRAMS}) ")


def blocks(page: Path) -> list[str]:
    """Returns the fenced blocks of a page that are meant for a shell."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for language, text in blocks if language in SHELLS]


def commands(page: Path) -> list[str]:
    """Returns every command of a page: of its fenced blocks, and of those that are indented."""
    text = re.sub(r"\\\n|(?<=\|)\n", " ", page.read_text(encoding="utf-8"))
    blocks: list[str] = []
    language: str | None = None
    code, before = False, ""
    for line in text.splitlines():
        # An indented block begins after an empty line; elsewhere an indented line continues a list.
        code = line.startswith("    ") and (code or not before)
        before = line
        if fence := re.match(r"```(\w*)", line):
            language = fence[1] if language is None else None
        elif language in SHELLS:
            blocks.append(line.removeprefix("$ "))
        elif (language is not None or code) and _TYPED.match(line.strip()):
            blocks.append(line.strip())
    return [line for line in blocks if line.strip() and not line.startswith("#")]


def make_commands(line: str) -> list[str]:
    """Returns what a line of `make` would run where everything is installed."""
    # The make that runs the tests tells a make below it to say more.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    arguments = [*line.partition("#")[0].split(), "--silent", "--dry-run", *_STAMPS]
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout.splitlines()
