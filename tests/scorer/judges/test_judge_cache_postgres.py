"""The judge cache in a real PostgreSQL: what one replica paid for, another has."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scorer.judges.base import JudgePrompt, Reply
from scorer.judges.cache import Cache, CacheError

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")


class Postgres:
    """A server on loopback that can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The server refuses to run as root.
        self.prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        # Not below pytest's own folder, which only its user may enter.
        self.data = Path(tempfile.mkdtemp(prefix="lyncean-postgres-"))
        if self.prefix:
            shutil.chown(self.data, "postgres", "postgres")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [*self.prefix, folder / "initdb", "-D", self.data, "-U", "lyncean", "-A", "trust"]
        subprocess.run(command, check=True, capture_output=True)
        self.address = f"postgresql://lyncean@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = ["-D", self.data, "-p", str(self.port), "-k", "", "-c", "listen_addresses=127.0.0.1"]
        self.server = subprocess.Popen(
            [*self.prefix, self.folder / "postgres", *options, "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(200):
            try:
                psycopg.connect(self.address).close()
                return
            except psycopg.OperationalError:
                assert self.server.poll() is None
                time.sleep(0.05)

    def stop(self) -> None:
        self.server.send_signal(signal.SIGINT)  # fast: open connections are ended, not waited for
        self.server.wait(20)


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    folder = found[-1].parent if found else Path(shutil.which("initdb") or "/none").parent
    if not (folder / "initdb").exists():
        pytest.skip("no PostgreSQL server here: install the package postgresql")
    server = Postgres(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.data)


PROMPT = JudgePrompt("p/1", "system", "user", {"type": "object"})


def test_replicas_share_replies_batches_and_calibrations(postgres: Postgres) -> None:
    first, second = Cache(postgres.address), Cache(postgres.address)
    assert second.get("judge", PROMPT) is None
    first.put("judge", PROMPT.sha256, Reply({"a": 1}, '{"a": 1}', "model"))
    second.put("judge", PROMPT.sha256, Reply({"a": 2}, '{"a": 2}', "model"))
    found = second.get("judge", PROMPT)
    assert found
    assert (found.data, found.cached) == ({"a": 1}, True)
    assert first.get("another", PROMPT) is None
    first.begin_batch("judge", "batch-1", ["x", "y"])
    assert second.batches("judge") == {"x": "batch-1", "y": "batch-1"}
    second.end_batch("judge", "batch-1")
    assert not first.batches("judge")
    first.calibrated("spec", "open_answer", 28, 30)
    first.calibrated("spec", "open_answer", 29, 30)
    assert second.calibrations("spec") == [("open_answer", 29, 30)]
    first.close()
    second.close()


def test_a_server_that_was_restarted_is_connected_to_again(postgres: Postgres) -> None:
    cache = Cache(postgres.address)
    cache.put("judge", PROMPT.sha256, Reply({}, "{}", "model"))
    postgres.stop()
    with pytest.raises(CacheError):
        cache.get("judge", PROMPT)
    postgres.start()
    assert cache.get("judge", PROMPT)
    postgres.stop()
    postgres.start()
    cache.begin_batch("judge", "batch-1", ["x", "y"])
    assert cache.batches("judge") == {"x": "batch-1", "y": "batch-1"}
    cache.close()
