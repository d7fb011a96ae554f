"""The command as a first-time user meets it: what `--help` teaches, and what is said where a word is mistyped."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from helpers.report_runs import marvel_run

from orchestrator.cli import COMMANDS, main


def told(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2, result.output
    return result.output


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("reprot",), "unknown command 'reprot': did you mean report?"),
        (("import", "lmms"), "unknown command 'lmms': did you mean lmms-eval?"),
        (("generate", "vloia"), "unknown command 'vloia': did you mean voila?"),
        (("xyz",), "there are eval, tasks,"),
    ],
)
def test_a_mistyped_command_is_told_the_closest(words: tuple[str, ...], hint: str) -> None:
    assert hint in told(*words)


def test_a_table_given_for_a_task_is_told_how_to_become_one(tmp_path: Path) -> None:
    table = tmp_path / "animals.csv"
    table.write_text("question,answer\nWhat barks?,dog\n")
    assert f"`orchestrator new-task {table}` makes a task file" in told("tasks", "--task", str(table))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_commands_that_can_be_typed(name: str) -> None:
    shown = CliRunner().invoke(main, [name, "--help"]).output
    assert not re.search(r"\d{6}", shown), "an end that concerns nobody"
    lines = shown.partition("Examples:\n")[2].replace("\\\n", "").splitlines()
    ours = [shlex.split(line.partition(">")[0] if " > " in line else line) for line in lines if "orchestrator" in line]
    assert any(words[:2] == ["orchestrator", name] for words in ours), shown
    for words in ours:
        found: click.Command | None = main
        rest = words[1:]
        while isinstance(found, click.Group):
            found = found.get_command(click.Context(found), rest.pop(0))
        assert found is not None, words
        known = {flag for param in found.params for flag in param.opts} | {"--help"}
        assert {word for word in rest if word.startswith("-")} <= known, words


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
@pytest.mark.parametrize("words", [("prompts", "--task", "vstar_bench", "--synthetic", "--limit", "9"), ("export",)])
def test_a_full_disk_behind_standard_output_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    more = [str(marvel_run(tmp_path / "run", puzzles=20)), "--format", "json"] if words == ("export",) else []
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "orchestrator", *words, *more]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert b"the standard output cannot be written: No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("--json",), ("--format", "csv")])
def test_a_report_in_another_format_names_the_command_for_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    run = str(marvel_run(tmp_path / "run", puzzles=20))
    assert f"orchestrator export {run} --format {words[-1].strip('-')}" in told("report", run, *words)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "x"
    assert f"{output} cannot be written: Not a directory" in told("generate", "voila-images", "--output", str(output))
    samples = tmp_path / "20260131_120000_samples_vstar_bench.jsonl"
    samples.write_text(
        '{"doc_id": 0, "target": "A", "filtered_resps": ["A"], "input": "Colour?\\nA. red\\nB. blue\\n"}\n'
    )
    result = CliRunner().invoke(main, ["import", "lmms-eval", str(samples), "--run", str(output)])
    assert result.exit_code == 3
    assert f"Error: {output} cannot be written: Not a directory" in result.output


def test_tasks_say_where_their_data_is_and_how_they_are_asked() -> None:
    shown = CliRunner().invoke(main, ["tasks", "-t", "vstar_bench", "-t", "voila_nd"]).output
    assert "    data: lmms-lab/vstar-bench; --method generate or likelihood\n" in shown
    assert "    data: nlylmz/VOILA; --method generate\n" in shown
