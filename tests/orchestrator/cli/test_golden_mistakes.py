"""The mistakes of a first hour: each is told in one line, which names it and the way out."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.mistakes import listed, playground, wrong

from model_server.cli import main as model_server
from orchestrator.cli import main as orchestrator
from scorer.cli import main as scorer
from tool_server.cli import main as tool_server

COMMANDS = {"orchestrator": orchestrator, "scorer": scorer, "model-server": model_server, "tool-server": tool_server}


def test_every_mistake_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(playground(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    outcomes = []
    for example in listed(extension=False):
        name, *arguments = shlex.split(example["type"])
        result = CliRunner().invoke(COMMANDS[name], arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), example
        outcomes.append((example, result.exit_code, result.output))
    assert not wrong(outcomes), "\n".join(wrong(outcomes))
    assert len(outcomes) > 60
