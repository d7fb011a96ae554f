"""The mistakes of a first hour with commands and words of extensions; see tests/orchestrator/cli."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.mistakes import listed, playground, wrong

from orchestrator.cli import main


def test_every_mistake_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(playground(tmp_path))
    outcomes = []
    for mistake in listed(extension=True):
        result = CliRunner().invoke(main, shlex.split(mistake["type"])[1:])
        assert result.exception is None or isinstance(result.exception, SystemExit), mistake
        outcomes.append((mistake, result.exit_code, result.output))
    assert not wrong(outcomes), "\n".join(wrong(outcomes))
    assert outcomes
