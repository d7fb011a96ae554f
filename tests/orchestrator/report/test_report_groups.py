"""Metrics of a group over its tasks: where they are shown, compared and written, and that no item counts twice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from helpers.report_runs import Writer
from rich.console import Console

from orchestrator import load
from orchestrator.cli.compare import command as compare
from orchestrator.cli.export import command as export
from orchestrator.compare.leaderboard import Source, make
from orchestrator.report.page import render
from orchestrator.report.terminal import print_results
from orchestrator.run_folder.reader import open_run

TASKS = ("lmms:few", "lmms:many")


def grouped_run(path: Path, few: list[float], many: list[float], why: str = "") -> Path:
    """Writes a run of two tasks and of a group that weighs them alike; `why` leaves its metric undefined."""
    writer = Writer(path, model=path.name, tasks=list(TASKS), data={})
    for task, scores in zip(TASKS, (few, many), strict=True):
        for place, score in enumerate(scores):
            writer.item(f"{task}/{place}", answer="1", score=score, rule="harness_task")
    writer.close()
    results = orjson.loads((path / "results.json").read_bytes())
    for task, scores in zip(TASKS, (few, many), strict=True):
        line = results["tasks"][task]["metrics"][0]
        line |= {"name": "acc", "metric": "harness_task", "value": sum(scores) / len(scores), "unit": ""}
    value = (sum(few) / len(few) + sum(many) / len(many)) / 2
    metric: dict[str, Any] = {
        "name": "acc", "metric": "harness_group", "labels": {}, "value": None if why else value,
        "value_answered": value, "denominator": len(few) + len(many), "denominator_answered": len(few) + len(many),
        "unit": "", "details": {"not_computed": why} if why else {"weights": dict.fromkeys(TASKS, 0.5)},
        "interval": {"low": value - 0.1, "high": value + 0.1, "level": 0.95, "method": "bootstrap"},
    }  # fmt: skip
    results["groups"] = {"lmms:all": {"tasks": list(TASKS), "counts": {}, "metrics": [metric]}}
    (path / "results.json").write_bytes(orjson.dumps(results))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    return (
        grouped_run(tmp_path / "before", [0.0, 1.0], [1.0, 1.0, 1.0, 0.0]),
        grouped_run(tmp_path / "after", [0.0, 0.0], [1.0, 1.0, 1.0, 1.0]),
    )


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
    found = load(runs[0])
    assert found["lmms:all/acc"].value == 0.625
    assert "6 planned" in str(found)


def test_an_undefined_group_says_why(tmp_path: Path) -> None:
    run = grouped_run(tmp_path / "run", [1.0], [1.0], why="there are no items of lmms:gone")
    assert "lmms:all, acc: there are no items of lmms:gone" in render(open_run(run)).replace("<wbr>", "")


def test_compare_tells_the_change_of_a_group_and_tests_its_tasks_alone(runs: tuple[Path, Path]) -> None:
    told = orjson.loads(CliRunner().invoke(compare, [*map(str, runs), "--json"]).output)["comparisons"][0]
    pairs = {pair["step"]: pair for pair in told["pairs"]}
    group = pairs["lmms:all"]
    assert (group["first"], group["second"], group["items"]) == (0.625, 0.5, 6)
    assert (group["difference"], group["p"]) == (-0.125, None)
    assert pairs["lmms:few"]["p"] is not None
    assert told["overall"]["items"] == 6
    gate = CliRunner().invoke(compare, [*map(str, runs), "--gate", "lmms:all/acc>=0.6"])
    assert "lmms:all: acc is 0.500" in gate.output
    assert gate.exit_code == 4


@pytest.mark.parametrize("form", ["md", "latex", "model-card", "lmms-eval"])
def test_exports_have_the_group(form: str, runs: tuple[Path, Path], tmp_path: Path) -> None:
    done = CliRunner().invoke(export, [str(runs[0]), "--format", form, "--output", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    written = [file for file in [tmp_path / "out", *(tmp_path / "out").rglob("*")] if file.is_file()]
    assert any("lmms:all" in file.read_text() and "0.625" in file.read_text() for file in written)


def test_a_leaderboard_has_a_column_for_the_group(runs: tuple[Path, Path]) -> None:
    (table,) = make("s", [Source(run.name, "", TASKS, run) for run in runs]).tables
    assert list(table.tasks) == ["lmms:all", *TASKS]
    assert [entry.shown for entry in table.column("lmms:all")] == ["0.625", "0.500"]
