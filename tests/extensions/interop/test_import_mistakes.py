"""Imports of files and folders that are missing, empty, torn or somebody else's: one line each, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.mistakes import FILES, error, mistake, refuses_no_folder

from orchestrator.cli import main

SAMPLES = "1_samples_vstar_bench.jsonl"
FILE_COMMANDS = [
    ("import", "lmms-eval", "{path}"),
    ("import", "reform", "{path}", "--formulation", "SingleChoice"),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("args", FILE_COMMANDS, ids=lambda args: args[1])
@pytest.mark.parametrize("content", FILES)
def test_files(tmp_path: Path, args: tuple[str, ...], content: str) -> None:
    path = tmp_path / SAMPLES
    path.write_bytes(FILES[content])
    assert SAMPLES in error(path, args)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("args", FILE_COMMANDS, ids=lambda args: args[1])
def test_no_file_and_a_folder_for_a_file(tmp_path: Path, args: tuple[str, ...]) -> None:
    assert "does not exist" in error(tmp_path / "nothing", args)
    assert "is a directory" in error(tmp_path, args)


def test_no_folder_a_file_and_an_empty_folder(tmp_path: Path) -> None:
    refuses_no_folder(("import", "reform-instructions", "{path}", "-o", "x.json"), tmp_path)


@pytest.mark.parametrize("args", [("lmms-eval", __file__), ("reform", __file__, "--formulation", "SingleChoice")])
def test_an_empty_variable_is_not_the_current_folder(tmp_path: Path, args: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["import", *args, "--run", ""])
    assert result.exit_code == 2
    assert "it is empty" in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("import", "lmms-eval", __file__, "--tls"), "--tls is for servers that run already"),
        (("export", ".", "--format", "csv", "--embed"), "--embed has no meaning for --format csv"),
        (("export", ".", "--format", "mlflow", "--output", "x"), "--output names a file or folder"),
    ],
)
def test_options_that_would_not_be_used(args: tuple[str, ...], message: str) -> None:
    assert message in mistake(main, *args)


def test_a_mistyped_kind_is_told_the_closest() -> None:
    assert "unknown command 'lmms': did you mean lmms-eval?" in mistake(main, "import", "lmms")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "x"
    samples = tmp_path / "20260131_120000_samples_vstar_bench.jsonl"
    samples.write_text(
        '{"doc_id": 0, "target": "A", "filtered_resps": ["A"], "input": "Colour?\\nA. red\\nB. blue\\n"}\n'
    )
    result = CliRunner().invoke(main, ["import", "lmms-eval", str(samples), "--run", str(output)])
    assert result.exit_code == 3
    assert f"Error: {output} cannot be written: Not a directory" in result.output
