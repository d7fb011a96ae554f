"""A bad network between real processes: packets lost, a cable pulled, connections cut, delayed and half-closed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from helpers.engine_cluster import Cluster, Server, wait_for
from helpers.engine_proxy import Proxy

pytestmark = pytest.mark.full

ROWS = ("--limit", "120")


class Network:
    """A network of its own (loopback alone), entered by `words`; `drop` and `heal` change it for all inside."""

    def __init__(self) -> None:
        script = "ip link set lo up && echo up && exec sleep infinity"
        command = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script]
        self._holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._holder.stdout
        self.up = self._holder.stdout.readline() == b"up\n"
        self.prefix = ("nsenter", f"--target={self._holder.pid}", "--user", "--net", "--preserve-credentials")

    def filter(self, *rule: str) -> bool:
        """Changes the filter; returns whether that worked."""
        done = subprocess.run([*self.prefix, "iptables", "--wait", *rule], capture_output=True)
        return done.returncode == 0

    def lose(self, share: float) -> bool:
        """Loses this share of all packets."""
        rule = ("-A", "INPUT", "-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP")
        return self.filter(*rule)

    def pull(self, port: int) -> bool:
        """Drops every packet to or from a port."""
        ends = ("--dport", "--sport")
        return all(self.filter("-A", "INPUT", "-p", "tcp", end, str(port), "-j", "DROP") for end in ends)

    def heal(self) -> bool:
        """Lets everything pass."""
        return self.filter("-F")

    def lost(self) -> int:
        """Returns how many packets were dropped."""
        command = [*self.prefix, "iptables", "--wait", "-L", "INPUT", "-v", "-x", "-n"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return sum(int(line.split()[0]) for line in listed.splitlines() if " DROP " in line)

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@pytest.fixture
def network(cluster: Cluster) -> Iterator[Network]:
    if sys.platform != "linux":
        pytest.skip("network namespaces are Linux's")
    namespace = Network()
    try:
        if not (namespace.up and namespace.lose(0.5) and namespace.heal()):
            pytest.skip("a network of its own takes unshare, ip and iptables, and the right to use them")
        cluster.before = namespace.prefix
        yield namespace
    finally:
        namespace.close()


def test_packets_are_lost(cluster: Cluster, network: Network, expected: bytes) -> None:
    servers, scorer = [cluster.model("--delay", "0.02") for _ in range(2)], cluster.scorer()
    assert network.lose(0.05)
    cluster.eval("run", servers, scorer, *ROWS, "--timeout", "20", "--patience", "60")
    assert network.lost() > 10
    cluster.whole(expected)


def test_the_cable_of_one_replica_is_pulled(cluster: Cluster, network: Network, expected: bytes) -> None:
    servers, scorer = [cluster.model("--delay", "0.05", "--concurrency", "2") for _ in range(2)], cluster.scorer()
    process = cluster.under_way(servers, scorer, *ROWS, "--timeout", "5", "--patience", "60", answered=20)
    network.pull(servers[0].port)
    cluster.ended(process)
    assert network.lost() > 0
    cluster.whole(expected)


@pytest.mark.full
def test_the_scorers_cable_is_pulled_and_put_back(cluster: Cluster, network: Network, expected: bytes) -> None:
    server, scorer = cluster.model("--delay", "0.05"), cluster.scorer()
    process = cluster.under_way([server], scorer, *ROWS, "--patience", "120", answered=20)
    network.pull(scorer.port)
    wait_for(lambda: cluster.answered() == 120)
    assert process.poll() is None
    lost = network.lost()
    assert lost
    wait_for(lambda: network.lost() > lost)  # it goes on trying
    network.heal()
    cluster.ended(process)
    cluster.whole(expected)
    assert cluster.calls() == {str(n): 1 for n in range(120)}


@pytest.mark.parametrize(
    "whim", [{"drop": 0.02}, {"delay": 0.05}, {"half_close": 0.02}], ids=lambda whim: next(iter(whim))
)
async def test_connections_are_treated_badly(
    cluster: Cluster, shared_scorer: Server, expected: bytes, whim: dict[str, float]
) -> None:
    server = cluster.model("--delay", "0.01", "--concurrency", "4")
    to_model, to_scorer = Proxy(server.port, **whim), Proxy(shared_scorer.port, **whim, seed=1)
    async with to_model as model_port, to_scorer as scorer_port:
        arguments = cluster.words("run", [server], shared_scorer, *ROWS, "--timeout", "20", "--patience", "60")
        arguments[arguments.index("--endpoint") + 1] = f"127.0.0.1:{model_port}"
        arguments[arguments.index("--scorer") + 1] = f"127.0.0.1:{scorer_port}"
        await asyncio.to_thread(cluster.orchestrator, *arguments)
    assert "delay" in whim or (to_model.cut and to_scorer.cut)
    cluster.whole(expected)
