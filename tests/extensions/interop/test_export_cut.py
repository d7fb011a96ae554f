"""Exports of runs with answers that the output limit cut."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers import cut_runs
from helpers.cut_runs import KEYS, Runs
from helpers.engine_cluster import Server

from orchestrator.cli import main


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, shared_scorer: Server) -> Runs:
    return cut_runs.make(tmp_path_factory.mktemp("cut"), shared_scorer.address)


def command(*args: object) -> Result:
    return CliRunner().invoke(main, [*map(str, args)], catch_exceptions=False)


def test_exports_have_the_count(runs: Runs, tmp_path: Path) -> None:
    command("export", runs.cut, "--format", "csv", "--output", tmp_path / "items.csv")
    with (tmp_path / "items.csv").open() as file:
        assert {row["key"] for row in csv.DictReader(file) if row["cut"] == "True"} == KEYS
    for kind in ("md", "latex", "model-card"):
        text = command("export", runs.cut, "--format", kind).output.replace("\\", "")
        assert "14 of 40 items (35.0%) cut at the output limit" in text, kind
    assert "cut at the output limit" not in command("export", runs.whole, "--format", "md").output
