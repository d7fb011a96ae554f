"""Commands of extensions as a first-time user meets them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.command_words import examples_can_be_typed, fills_the_disk
from helpers.port_signal import SIGNALLED
from helpers.report_runs import marvel_run

from orchestrator.cli import lyncean, main


@pytest.mark.parametrize("name", ["import", "submit"])
def test_help_ends_with_commands_that_can_be_typed(name: str) -> None:
    examples_can_be_typed(name)


def test_submit_is_below_lyncean() -> None:
    result = CliRunner().invoke(lyncean, ["submit", "--help"], prog_name="lyncean")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Usage: lyncean submit ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line(tmp_path: Path) -> None:
    fills_the_disk("export", str(marvel_run(tmp_path / "run", puzzles=20)), "--format", "json")


@pytest.mark.parametrize("options", [("--json",), ("--format", "csv")])
def test_a_report_in_another_format_names_the_command_for_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    run = str(marvel_run(tmp_path / "run", puzzles=20))
    result = CliRunner().invoke(main, ["report", run, *options])
    assert result.exit_code == 2, result.output
    assert f"orchestrator export {run} --format {options[-1].strip('-')}" in result.output


def test_an_empty_variable_is_not_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["submit", "-t", "marvel", "--run", ""])
    assert result.exit_code == 2
    assert "a name of a-z" in result.output
    assert not list(tmp_path.iterdir())


def test_whoever_reads_the_port_of_the_front_may_send_a_signal(tmp_path: Path) -> None:
    args = ("model-server", "http", "--endpoint", "127.0.0.1:9", "--port", "0", "--port-file", str(tmp_path / "port"))
    command = [sys.executable, "-c", SIGNALLED, *args]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "port").exists()
