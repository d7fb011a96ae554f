"""Runs that are read by a process each compare as runs that are read one after the other."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers.report_runs import Writer, marvel_run

from lyncean import columns as spilled
from orchestrator.cli import main
from orchestrator.cli.compare import command
from orchestrator.compare import items, parallel


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every run for a large one."""
    monkeypatch.setattr(parallel, "_LARGE", 0)
    monkeypatch.setattr(parallel, "_processors", lambda: 2)


def compared(*args: str | Path) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args])


def runs(folder: Path) -> list[Path]:
    made = [marvel_run(folder / "before", skill=0.9), marvel_run(folder / "after", model="qwen-tiny", skill=0.2)]
    writer = Writer(folder / "parts")
    for place in range(40):
        writer.item(
            f"marvel/{place + 1}:avr", answer="1", score=float(place % 3 == 0), labels={"kind": "xyz"[place % 3]}
        )
    return [*made, writer.close()]


@pytest.mark.parametrize("words", [["--json"], ["--flips", "9"], ["--gate", "acc>=0.6,change.low>=-2%"]])
def test_a_comparison_is_the_same(words: list[str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folders = runs(tmp_path)
    alone = compared(*folders, *words)
    assert alone.exit_code in (0, 4)
    request.getfixturevalue("large")
    beside = compared(*folders, *words)
    assert (beside.output, beside.exit_code) == (alone.output, alone.exit_code)


def test_an_explanation_is_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    words = ["explain", *map(str, runs(tmp_path)[:2]), "--json"]
    alone = CliRunner().invoke(main, words)
    assert alone.exit_code == 0, alone.output
    request.getfixturevalue("large")
    assert CliRunner().invoke(main, words).output == alone.output


@pytest.mark.usefixtures("large")
def test_columns_that_lie_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = runs(tmp_path)
    alone = compared(*folders, "--json").output
    monkeypatch.setattr(spilled, "_KEPT_BYTES", 64)
    monkeypatch.setattr(items, "_PART", 32)
    assert compared(*folders, "--json").output == alone


@pytest.mark.usefixtures("large")
def test_a_damaged_line_is_named_as_ever(tmp_path: Path) -> None:
    folders = runs(tmp_path)
    log = folders[1] / "verdicts.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"scored"', b'"scorEd"', 1))
    result = compared(*folders)
    assert result.exit_code == 2
    assert re.search(r"verdicts\.jsonl, line \d+: damaged", " ".join(result.output.split()))
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("large")
def test_a_process_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = runs(tmp_path)
    # It ends itself as it does where this process has ended in the meantime.
    monkeypatch.setattr(
        parallel, "with_parent", lambda environment: {**environment, "LYNCEAN_PARENT": str(os.getppid())}
    )
    result = compared(*folders)
    assert result.exit_code == 1
    assert "was ended by signal 15" in result.output
