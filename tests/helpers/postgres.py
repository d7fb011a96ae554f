"""A real PostgreSQL on loopback, of this machine's own programs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


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
        import psycopg

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


@contextmanager
def running() -> Iterator[Postgres]:
    """Starts a server; skips the test where there is none."""
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    folder = paths[-1].parent if paths else Path(shutil.which("initdb") or "/none").parent
    if not (folder / "initdb").exists():
        pytest.skip("no PostgreSQL server here: install the package postgresql")
    server = Postgres(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.data)
