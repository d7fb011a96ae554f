"""A model server and a scorer for the tests of foreign tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import Server

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The model server."""
    program = ROOT / "tests" / "helpers" / "harness_model.py"
    server = Server(tmp_path_factory.mktemp("model"), [sys.executable, str(program)]).start()
    yield server.address
    server.kill()


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scorer of foreign tasks, those among them whose code runs text."""
    command = [sys.executable, "-m", "scorer", "serve", "--foreign-tasks", "--trust-task-code"]
    server = Server(tmp_path_factory.mktemp("scorer"), command).start()
    yield server.address
    server.kill()
