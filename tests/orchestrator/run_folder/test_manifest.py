"""The manifest's record of the command that wrote it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.run_folder import manifest
from orchestrator.run_folder.reader import open_run


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["orchestrator", *arguments])
    fields = manifest.make(
        {}, info=model.GetModelInfoResponse(), stages={}, replicas=[], rules=scorer.ListRulesResponse(), metrics={},
        shard=None, code={},
    )  # fmt: skip
    text: str = orjson.loads(orjson.dumps(fields))["command"]
    return text


def test_no_password_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (
        "eval",
        "--judge",
        "openai:m@http://u:p@ss@h/v1",
        "--judge-cache",
        "postgresql:///j?user=u&password=SECRET",
    )
    assert command(monkeypatch, *arguments) == (
        "orchestrator eval --judge openai:m@http://***@h/v1 --judge-cache postgresql:///j?user=u&password=***"
    )


@pytest.mark.parametrize("read", [manifest.read, open_run])
def test_an_identity_that_was_changed_is_no_runs(read: Callable[[Path], object], tmp_path: Path) -> None:
    fields = manifest.make(
        {"seed": 1, "tasks": ["t"]}, info=model.GetModelInfoResponse(), stages={}, replicas=[],
        rules=scorer.ListRulesResponse(), metrics={}, shard=None, code={},
    )  # fmt: skip
    file = tmp_path / "manifest.json"
    manifest.write(file, fields)
    read(tmp_path)
    file.write_bytes(file.read_bytes().replace(b'"seed": 1', b'"seed": 3'))
    with pytest.raises(UserError, match=r"manifest.json was changed: its identity has another hash"):
        read(tmp_path)


def test_what_is_no_utf8_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, "eval", "--data", "b\udcff") == r"orchestrator eval --data b\udcff"
