"""A model server and a scorer for the tests of foreign tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import Server

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The model server."""
    program = ROOT / "tests" / "helpers" / "harness_model.py"
    server = Server(tmp_path_factory.mktemp("model"), [sys.executable, str(program)]).start()
    yield server.address
    server.kill()


@pytest.fixture
def scorer(shared_scorer: Server) -> str:
    return shared_scorer.address
