"""The training whose checkpoints the tests of watchers evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from helpers.engine_cluster import Server
from helpers.letter_training import Training

from orchestrator.run import servers
from orchestrator.suite import watch


@pytest.fixture
def training(tmp_path: Path, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Training]:
    def arguments(model: str, _: Sequence[str] | Mapping[str, object]) -> list[str]:
        config = Path(model) / "config.json"
        letter = config.read_text() if config.is_file() else "?"  # one of a bucket is there while it is evaluated
        return ["--backend", "demo", "--model", f"constant:{letter}", "--name", f"{Path(model).name}-{letter}"]

    monkeypatch.setattr(servers, "model_arguments", arguments)
    monkeypatch.setattr(watch, "LOOK", 0.05)
    return Training(tmp_path, shared_scorer)
