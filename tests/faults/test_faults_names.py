"""Replicas behind a name whose addresses change while the run is under way, through the system's own resolver."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from helpers.engine_cluster import Cluster, Server, free_port, wait_for

pytestmark = pytest.mark.full

NAME = "models.lyncean.test"


class Hosts:
    """An /etc/hosts that only processes started with `words` before them see."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set("127.0.0.1")
        script = f'mount --bind "{file}" /etc/hosts && exec "$@"'
        self.prefix = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh")

    def set(self, *addresses: str) -> None:
        """Makes `NAME` resolve to these addresses alone."""
        self._file.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {NAME}\n" for address in addresses))

    def look_up(self) -> list[str]:
        """Returns the addresses that a process resolves `NAME` to."""
        code = f"import socket; print(*sorted({{a[4][0] for a in socket.getaddrinfo('{NAME}', 1)}}))"
        done = subprocess.run([*self.prefix, sys.executable, "-c", code], capture_output=True, text=True)
        return done.stdout.split()


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    hosts_file = Hosts(tmp_path / "hosts")
    if sys.platform != "linux" or hosts_file.look_up() != ["127.0.0.1"]:
        pytest.skip("an /etc/hosts of a process's own takes Linux with unshare (mount namespaces)")
    return hosts_file


def calls(server: Server) -> list[str]:
    log = server.folder / "calls"
    return log.read_text().split() if log.exists() else []


@pytest.mark.full
def test_pods_are_replaced_behind_their_name(
    cluster: Cluster, shared_scorer: Server, hosts: Hosts, expected: bytes
) -> None:
    """One comes, one goes in good order, one dies and its successor has another address."""
    port = free_port()
    flags = ("--delay", "0.25", "--concurrency", "1")
    addresses = ["127.0.0.21", "127.0.0.22", "127.0.0.23"]
    hosts.set(addresses[0])
    assert hosts.look_up() == addresses[:1]
    first, second, third = (cluster.model("--host", address, *flags, port=port) for address in addresses)
    arguments = cluster.words("run", [], shared_scorer, "--limit", "120", "--patience", "60")
    arguments[arguments.index("--endpoint") + 1] = f"{NAME}:{port}"
    cluster.before = hosts.prefix
    process = cluster.start(*arguments)
    wait_for(lambda: len(calls(first)) >= 3)
    hosts.set(*addresses[:2])
    wait_for(lambda: len(calls(second)) >= 3)
    hosts.set(addresses[1])
    # In good order: what it holds when its address goes is answered, and nothing new comes.
    left: list[str] = []

    def let_go() -> bool:
        left[:], ahead = calls(first), len(calls(second))
        wait_for(lambda: len(calls(second)) >= ahead + 8)
        return left == calls(first)

    wait_for(let_go)
    second.kill()
    hosts.set(addresses[2])
    output = cluster.ended(process)
    assert cluster.results("run") == expected
    assert calls(first) == left
    assert len(calls(third)) > 10
    assert f"{addresses[0]}:{port} is gone from {NAME}:{port}" in output
    lines = cluster.lines("run")
    replicas = Counter(line["replica"] for line in lines)
    assert set(replicas) == {f"{address}:{port}" for address in addresses}
    assert len({line["key"] for line in lines}) == len(lines) == 120
    # Nothing is asked twice but what the killed one may have answered into a dead connection.
    assert cluster.calls().total() <= 121
