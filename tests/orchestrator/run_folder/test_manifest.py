"""What the manifest says of the command that made it."""

from __future__ import annotations

import sys

import orjson
import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.run_folder import manifest


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["orchestrator", *words])
    made = manifest.make(
        {}, info=model.GetModelInfoResponse(), stages={}, replicas=[], rules=scorer.ListRulesResponse(), metrics={},
        shard=None, code={},
    )  # fmt: skip
    found: str = orjson.loads(orjson.dumps(made))["command"]
    return found


def test_no_password_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "eval",
        "--judge",
        "openai:m@http://u:p@ss@h/v1",
        "--judge-cache",
        "postgresql:///j?user=u&password=SECRET",
    )
    assert command(monkeypatch, *words) == (
        "orchestrator eval --judge openai:m@http://***@h/v1 --judge-cache postgresql:///j?user=u&password=***"
    )


def test_what_is_no_utf8_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, "eval", "--data", "b\udcff") == r"orchestrator eval --data b\udcff"
