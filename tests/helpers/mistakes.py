"""What a command says of a mistake."""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner

FILES = {
    "empty": b"",
    "torn": b'{"doc_id": ',
    "words": b"hello world",
    "bytes": b"\xff\xfe\x00\x01",
    "other": b'{"a": 1}',
    "list": b"[1, 2]",
    "number": b"3",
}


def one_line(output: str) -> str:
    """Returns the one line of an error."""
    errors = [line for line in output.splitlines() if line.startswith("Error:")]
    assert len(errors) == 1, output
    assert "Traceback" not in output
    return errors[0]


def mistake(command: click.Command, *words: str) -> str:
    """Returns the one line with which a command refuses these words."""
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    return one_line(result.output)


def error(path: Path, words: tuple[str, ...]) -> str:
    """Returns the one line with which `orchestrator` refuses a path."""
    from orchestrator.cli import main  # not for tests of a service alone

    return mistake(main, *(word.format(path=path) for word in words))


def refuses_no_folder(words: tuple[str, ...], folder: Path) -> None:
    """Makes sure that a command refuses an absent folder, a file and an empty folder."""
    assert "nothing" in error(folder / "nothing", words)
    file = folder / "file"
    file.write_text("x")
    assert "is a file" in error(file, words)
    empty = folder / "folder"
    empty.mkdir()
    assert "folder" in error(empty, words)
