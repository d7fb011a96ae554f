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
    yield from _serve(tmp_path_factory.mktemp("model"), str(ROOT / "tests" / "helpers" / "harness_model.py"))


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The scorer."""
    yield from _serve(tmp_path_factory.mktemp("scorer"), "-m", "scorer", "serve")


def _serve(folder: Path, *command: str) -> Iterator[str]:
    server = Server(folder, [sys.executable, *command]).start()
    yield server.address
    server.kill()
