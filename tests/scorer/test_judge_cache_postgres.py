"""The judge cache in a real PostgreSQL: what one replica paid for, another has."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scorer.judges.base import JudgePrompt, Reply
from scorer.judges.cache import Cache

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")


@pytest.fixture
def address() -> Iterator[str]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    folder = found[-1].parent if found else Path(shutil.which("initdb") or "/none").parent
    if not (folder / "initdb").exists():
        pytest.skip("no PostgreSQL server here: install the package postgresql")
    # The server refuses to run as root.
    prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    # Not below pytest's own folder, which only its user may enter.
    data = Path(tempfile.mkdtemp(prefix="lynceus-postgres-"))
    if prefix:
        shutil.chown(data, "postgres", "postgres")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    subprocess.run(
        [*prefix, folder / "initdb", "-D", data, "-U", "lynceus", "-A", "trust"], check=True, capture_output=True
    )
    options = ["-D", data, "-p", str(port), "-k", "", "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    server = subprocess.Popen(
        [*prefix, folder / "postgres", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"postgresql://lynceus@127.0.0.1:{port}/postgres"
    try:
        for _ in range(200):
            try:
                psycopg.connect(url).close()
                break
            except psycopg.OperationalError:
                assert server.poll() is None
                time.sleep(0.05)
        yield url
    finally:
        server.terminate()
        server.wait(20)
        shutil.rmtree(data)


def test_replicas_share_replies_batches_and_calibrations(address: str) -> None:
    prompt = JudgePrompt("p/1", "system", "user", {"type": "object"})
    first, second = Cache(address), Cache(address)
    assert second.get("judge", prompt) is None
    first.put("judge", prompt.sha256, Reply({"a": 1}, '{"a": 1}', "model"))
    second.put("judge", prompt.sha256, Reply({"a": 2}, '{"a": 2}', "model"))
    found = second.get("judge", prompt)
    assert found
    assert (found.data, found.cached) == ({"a": 1}, True)
    assert first.get("another", prompt) is None
    first.begin_batch("judge", "batch-1", ["x", "y"])
    assert second.batches("judge") == {"x": "batch-1", "y": "batch-1"}
    second.end_batch("judge", "batch-1")
    assert not first.batches("judge")
    first.calibrated("spec", "open_answer", 28, 30)
    first.calibrated("spec", "open_answer", 29, 30)
    assert second.calibrations("spec") == [("open_answer", 29, 30)]
    first.close()
    second.close()
