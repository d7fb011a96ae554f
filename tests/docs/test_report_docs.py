"""Every command of docs/reports-and-comparison.md does what it says, and those of labels in docs/judges.md."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.engine_cluster import free_port, wait_for
from helpers.page_commands import ROOT, commands
from helpers.report_runs import marvel_run

from orchestrator.cli import main

LINES = commands(ROOT / "docs" / "reports-and-comparison.md")
LABELS = [line for line in commands(ROOT / "docs" / "judges.md") if line.startswith("orchestrator ")]
LINES += [line for line in LABELS if " --judge " not in line]
VIEWS = [line for line in LINES if " view " in line or " label " in line]
COMMANDS = [line for line in LINES if line not in VIEWS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("docs")
    for name, skill, blind in (
        ("first", 0.5, False),
        ("second", 0.7, False),
        ("third", 0.6, False),
        ("blind", 0.0, True),
    ):
        marvel_run(path / "runs" / name, puzzles=60, skill=skill, blind=blind)
    return path


@pytest.mark.parametrize("line", COMMANDS)
def test_it_works(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "--format inspect" in line:
        pytest.importorskip("inspect_ai")
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, shlex.split(line)[1:])
    # A gate may well fail; that is exit code 4 and no mistake.
    assert result.exit_code == (4 if "--gate" in line else 0), result.output
    for option in ("--output", "--html", "--markdown"):
        if option in line:
            assert (folder / line.split(option)[1].split()[0]).exists()


@pytest.mark.full
@pytest.mark.parametrize("line", VIEWS)
def test_it_serves(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if line.startswith("inspect "):
        pytest.importorskip("inspect_ai")
        monkeypatch.chdir(folder)
        (export,) = (line for line in COMMANDS if "--format inspect" in line)
        assert CliRunner().invoke(main, shlex.split(export)[1:]).exit_code == 0
    port = free_port()
    command = f"exec {line} --port {port}"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    process = subprocess.Popen(["sh", "-euc", command], cwd=folder, env=environment, stdout=subprocess.DEVNULL)

    def page() -> str:
        assert process.poll() is None, line
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as reply:
                return str(reply.read(1 << 20), "utf-8")
        except urllib.error.URLError:
            return ""

    try:
        assert "<html" in wait_for(page).lower()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
