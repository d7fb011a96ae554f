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
    found = []
    for each in listed(extension=True):
        result = CliRunner().invoke(main, shlex.split(each["type"])[1:])
        assert result.exception is None or isinstance(result.exception, SystemExit), each
        found.append((each, result.exit_code, result.output))
    assert not wrong(found), "\n".join(wrong(found))
    assert found
