"""Every command of docs/reports-and-comparison.md does what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from report_runs import marvel_run

from orchestrator.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "reports-and-comparison.md"
LINES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
]
COMMANDS = [line for line in LINES if line.startswith("orchestrator ") and not line.startswith("orchestrator view")]


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
    for option in ("--output", "--html"):
        if option in line:
            assert (folder / line.split(option)[1].split()[0]).exists()
