"""Settings of all tests, and servers that many of them share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import Cluster, Server
from hypothesis import settings

# Tests run beside each other, and so do the servers that they start: threads of torch would wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell starts what runs in the background with Ctrl-C ignored, which every child would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes on a busy machine says nothing of the code: no test asserts on time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts files with long tests first: the last ones are short, and workers end together."""
    long = {item.path for item in items if item.get_closest_marker("full")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path)
    yield started
    started.close()


@pytest.fixture(scope="session")
def shared_scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Cluster(tmp_path_factory.mktemp("scorer"))
    yield started.scorer()
    started.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The demo backend without weights."""
    command = [sys.executable, "-m", "model_server", "serve", "--backend", "demo"]
    server = Server(tmp_path_factory.mktemp("demo"), command).start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def expected(shared_scorer: Server, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The results of an undisturbed run of 120 rows."""
    undisturbed = Cluster(tmp_path_factory.mktemp("undisturbed"))
    try:
        undisturbed.eval("run", [undisturbed.model("--concurrency", "8")], shared_scorer, "--limit", "120")
    finally:
        undisturbed.close()
    return undisturbed.results("run")
