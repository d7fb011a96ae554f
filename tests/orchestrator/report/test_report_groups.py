"""Metrics of a group over its tasks: where they are shown and compared, and that no item counts twice."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from helpers.grouped_runs import TASKS, grouped_run, two_runs
from rich.console import Console

from orchestrator import load
from orchestrator.cli.compare import command as compare
from orchestrator.compare.leaderboard import Source, make
from orchestrator.report.page import render
from orchestrator.report.terminal import print_results
from orchestrator.run_folder.reader import open_run


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    return two_runs(tmp_path)


def test_the_group_stands_beside_its_tasks_and_its_items_count_once(runs: tuple[Path, Path]) -> None:
    console = Console(record=True, width=120, file=None, force_terminal=False)
    print_results(runs[0], console)
    text = console.export_text()
    assert text.index("lmms:all") < text.index("lmms:few")
    assert "6 planned = 6 scored" in text
    assert "12 planned" not in text
    page = render(open_run(runs[0]))
    assert "over 2 tasks" in page
    assert re.search(r"<h3[^>]*>lmms:(<wbr>)?all", page)
    loaded = load(runs[0])
    assert loaded["lmms:all/acc"].value == 0.625
    assert "6 planned" in str(loaded)


def test_an_undefined_group_says_why(tmp_path: Path) -> None:
    run = grouped_run(tmp_path / "run", [1.0], [1.0], why="there are no items of lmms:gone")
    assert "lmms:all, acc: there are no items of lmms:gone" in render(open_run(run)).replace("<wbr>", "")


def test_compare_tells_the_change_of_a_group_and_tests_its_tasks_alone(runs: tuple[Path, Path]) -> None:
    comparison = orjson.loads(CliRunner().invoke(compare, [*map(str, runs), "--json"]).output)["comparisons"][0]
    pairs = {pair["step"]: pair for pair in comparison["pairs"]}
    group = pairs["lmms:all"]
    assert (group["first"], group["second"], group["items"]) == (0.625, 0.5, 6)
    assert (group["difference"], group["p"]) == (-0.125, None)
    assert pairs["lmms:few"]["p"] is not None
    assert comparison["overall"]["items"] == 6
    gate = CliRunner().invoke(compare, [*map(str, runs), "--gate", "lmms:all/acc>=0.6"])
    assert "lmms:all: acc is 0.500" in gate.output
    assert gate.exit_code == 4


def test_a_leaderboard_has_a_column_for_the_group(runs: tuple[Path, Path]) -> None:
    (table,) = make("s", [Source(run.name, "", TASKS, run) for run in runs]).tables
    assert list(table.tasks) == ["lmms:all", *TASKS]
    assert [entry.shown for entry in table.column("lmms:all")] == ["0.625", "0.500"]
