"""The lines of docs/ci.md, typed into a shell as a job of CI would: a run of main, then two pull requests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.engine_cluster import Server
from helpers.page_commands import ROOT, blocks
from helpers.python_path import python_path

PAGE = ROOT / "docs" / "ci.md"
LIMIT = 8
GH = """#!/bin/sh
case "$1 $2" in
"run download") cp -r "$STORE/$4" "$6" ;;
"pr comment") cp "$4" "$STORE/comment.md" ;;
esac
"""
AWS = """#!/bin/sh
to=$(echo "$4" | sed "s|s3://bucket|$STORE|"); from=$(echo "$3" | sed "s|s3://bucket|$STORE|")
mkdir -p "$to"; cp -r "$from/." "$to"
"""


class Ci:
    """Jobs, each in a folder of its own, and what they store."""

    def __init__(self, folder: Path, scorer: Server) -> None:
        self.folder, self.scorer = folder, scorer
        self.store, tools = folder / "store", folder / "tools"
        self.store.mkdir()
        tools.mkdir()
        program = f'#!/bin/sh\nexec {sys.executable} -m orchestrator "$@"\n'
        for name, text in (("gh", GH), ("aws", AWS), ("orchestrator", program)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "STORE": str(self.store), "PYTHONPATH": python_path(ROOT)}

    def job(self, name: str, server: Server, lines: str) -> int:
        """Types lines in a folder with the page's suite, which asks a server; returns the exit code."""
        work = self.folder / name
        work.mkdir()
        (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        for shown, meant in (
            ("models.svc:50051", server.address),
            ("limit: 100", f"limit: {LIMIT}"),
            ("synthetic: true", f'synthetic: true, scorer: "{self.scorer.address}"'),
        ):
            assert shown in text
            text = text.replace(shown, meant)
        (work / "ci.yaml").write_text(text)
        done = subprocess.run(
            ["sh", "-euc", lines], cwd=work, env=self.environment, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode


@pytest.fixture
def lines() -> list[str]:
    (block,) = blocks(PAGE)
    typed = block.splitlines()
    assert len(typed) == 5
    return typed


def test_five_lines(tmp_path: Path, demo: Server, shared_scorer: Server, lines: list[str]) -> None:
    ci = Ci(tmp_path, shared_scorer)
    stored, loaded = re.findall(r"`(aws [^`]*)`", PAGE.read_text(encoding="utf-8"))
    assert ci.job("main", demo, f"{lines[1]}\n{stored}") == 0
    # So few items show no such margin, as the page says.
    assert ci.job("same", demo, "\n".join(lines)) == 5
    comment = (ci.store / "comment.md").read_text()
    head, _, pull, main, *rest = comment.splitlines()
    assert head.startswith("| ci | ")
    assert re.findall(r"\| (\w+) \|", f"{pull}\n{main}") == ["served", "main"]
    assert pull.removeprefix("| served") == main.removeprefix("| main")
    assert [bool(re.search(f"{task}.*{LIMIT}", comment)) for task in ("vstar_bench", "marvel")] == [True, True]
    gates = [line.split()[1] for line in rest if line.startswith("    gate")]
    assert len(gates) == 4
    assert set(gates) == {"pass", "not"}
    # From a bucket, and by a gate that this model does not meet.
    missed = [line.replace("change.low>=-5%", "change>=5%") for line in lines[1:]]
    assert ci.job("missed", demo, "\n".join([loaded, *missed])) == 4
    assert "FAIL" in (ci.store / "comment.md").read_text()
