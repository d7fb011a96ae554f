"""What a command says of a mistake."""

from __future__ import annotations

import click
from click.testing import CliRunner


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
