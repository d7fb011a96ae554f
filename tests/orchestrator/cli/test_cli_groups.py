"""The command as a first-time user meets it: what `--help` teaches, and what is said where a word is mistyped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.command_words import examples_can_be_typed, fills_the_disk
from helpers.report_runs import marvel_run

from orchestrator.cli import COMMANDS, main


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    return result.output


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("reprot",), "unknown command 'reprot': did you mean report?"),
        (("generate", "vloia"), "unknown command 'vloia': did you mean voila?"),
        (("xyz",), "there are eval, tasks,"),
    ],
)
def test_a_mistyped_command_is_told_the_closest(arguments: tuple[str, ...], hint: str) -> None:
    assert hint in refused(*arguments)


def test_a_table_given_for_a_task_is_told_how_to_become_one(tmp_path: Path) -> None:
    table = tmp_path / "animals.csv"
    table.write_text("question,answer\nWhat barks?,dog\n")
    assert f"`orchestrator new-task {table}` makes a task file" in refused("tasks", "--task", str(table))


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("import", "submit")])
def test_help_ends_with_commands_that_can_be_typed(name: str) -> None:
    examples_can_be_typed(name)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_tables_are_printed_whatever_the_locale(tmp_path: Path, encoding: str) -> None:
    runs = [marvel_run(tmp_path / name, puzzles=20, seed=seed) for seed, name in enumerate(("one", "two"))]
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "compare", *map(str, runs)],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode("utf-8" if encoding == "ascii" else encoding)
    assert ("one  →  two" if encoding == "ascii" else "one  \\u2192  two") in shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    fills_the_disk("prompts", "--task", "vstar_bench", "--synthetic", "--limit", "9")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "x"
    assert f"{output} cannot be written: Not a directory" in refused(
        "generate", "voila-images", "--output", str(output)
    )


def test_tasks_say_where_their_data_is_and_how_they_are_asked() -> None:
    shown = CliRunner().invoke(main, ["tasks", "-t", "vstar_bench", "-t", "voila_nd"]).output
    assert "    data: lmms-lab/vstar-bench; --method generate or likelihood\n" in shown
    assert "    data: nlylmz/VOILA; --method generate\n" in shown
