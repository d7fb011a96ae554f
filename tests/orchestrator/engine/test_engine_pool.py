"""Replicas that do not answer at the start, and one that leaves its name while the pool is asking after it."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import AsyncIterator, Sequence

import grpc
import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import PLAIN, CallError
from orchestrator.engine import Endpoint, Pool, pool as pool_module
from orchestrator.engine.replica import Health, Replica
from orchestrator.errors import ConfigError, IncompleteError

INFO = model.GetModelInfoResponse(model_name="m", max_concurrency=2)
STAYS, LEAVES = "127.0.0.1:11", "127.0.0.1:12"


class Servers:
    """Responses of `GetModelInfo` at each address, and the addresses of the name."""

    def __init__(self) -> None:
        self.known = [STAYS, LEAVES]
        self.answering = asyncio.Event()
        self.answering.set()
        self.probes: list[str] = []
        self.draining = False

    async def resolve(self, _: Endpoint) -> Sequence[str]:
        return list(self.known)

    async def info(self, replica: Replica) -> model.GetModelInfoResponse:
        if replica.health is Health.GONE:
            # What a stub of a closed channel says: a defect, not a status.
            raise grpc.aio.UsageError("Channel is closed.")
        self.probes.append(replica.address)
        await self.answering.wait()
        if self.draining and replica.address == LEAVES:
            raise CallError(grpc.StatusCode.UNAVAILABLE, "draining", "it goes away")
        return INFO


@pytest.fixture
async def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    instance = Servers()
    monkeypatch.setattr(Replica, "fetch_info", lambda replica: instance.info(replica))
    monkeypatch.setattr(pool_module, "RESOLVE_SECONDS", 0.01)
    return instance


@pytest.fixture
async def pool(servers: Servers) -> AsyncIterator[Pool]:
    instance = Pool([Endpoint("models", 1)], PLAIN, resolver=servers.resolve)
    await instance.connect()
    assert len(instance.ready) == 2
    yield instance
    await instance.close()


async def until_only_one_is_left(pool: Pool) -> None:
    async with asyncio.timeout(300):
        while list(pool.replicas) != [STAYS] or pool._probing:
            await asyncio.sleep(0.005)


async def test_it_leaves_between_two_probes(pool: Pool, servers: Servers) -> None:
    leaving, servers.draining = pool.replicas[LEAVES], True
    pool.suspect(leaving, CallError(grpc.StatusCode.UNAVAILABLE, "draining", "it goes away"))
    async with asyncio.timeout(300):
        while servers.probes.count(LEAVES) < 2:
            await asyncio.sleep(0.005)
    servers.known.remove(LEAVES)
    await until_only_one_is_left(pool)
    pool.check()
    assert leaving.health is Health.GONE
    assert [replica.address for replica in pool.ready] == [STAYS]


async def test_it_leaves_while_it_answers_a_probe(pool: Pool, servers: Servers) -> None:
    leaving, probes = pool.replicas[LEAVES], servers.probes.count(LEAVES)
    servers.answering.clear()
    pool.suspect(leaving, CallError(grpc.StatusCode.UNAVAILABLE, "draining", "it goes away"))
    async with asyncio.timeout(300):
        while servers.probes.count(LEAVES) == probes:
            await asyncio.sleep(0.005)
        servers.known.remove(LEAVES)
        while LEAVES in pool.replicas:
            await asyncio.sleep(0.005)
    servers.answering.set()
    await until_only_one_is_left(pool)
    pool.check()
    assert leaving.health is Health.GONE, "its late answer does not bring it back"
    assert leaving.free == 0


async def test_who_does_not_answer_at_the_start_is_named_once_and_when_he_comes(servers: Servers) -> None:
    servers.draining = True
    notes: list[str] = []
    pool = Pool([Endpoint("models", 1)], PLAIN, resolver=servers.resolve, notify=notes.append)
    await pool.connect()
    assert notes == [f"{LEAVES} does not answer yet (UNAVAILABLE: it goes away); going on without it"]
    async with asyncio.timeout(300):
        while servers.probes.count(LEAVES) < 5:
            await asyncio.sleep(0.005)
        servers.draining = False
        while len(pool.ready) < 2:
            await asyncio.sleep(0.005)
        while pool._probing:
            await asyncio.sleep(0.005)
    assert notes[1:] == [f"{LEAVES} answers"]
    await pool.close()


async def test_a_server_without_a_model_name_is_told_just_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nameless(_: Replica) -> model.GetModelInfoResponse:
        return model.GetModelInfoResponse(max_concurrency=2)

    monkeypatch.setattr(Replica, "fetch_info", nameless)
    pool = Pool([Endpoint("127.0.0.1", 11)], PLAIN)
    with pytest.raises(ConfigError, match="its GetModelInfo has no model_name, and results need one"):
        await pool.connect()
    await pool.close()


async def test_a_web_server_is_no_model_server_and_the_wait_for_it_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "backoff", lambda _: 0.1)  # random pauses may skip the moment at which it tells
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    notes: list[str] = []
    pool = Pool([Endpoint("127.0.0.1", web.server_port)], PLAIN, patience=2, notify=notes.append)
    with pytest.raises(IncompleteError, match=r"UNAVAILABLE: what answers there does not speak gRPC\)"):
        await pool.connect()
    await pool.close()
    web.shutdown()
    assert notes[0].startswith(f"waiting for 127.0.0.1:{web.server_port}, 2 s at most: ")


@pytest.mark.parametrize("silent", [False, True])
async def test_one_name_that_is_not_known_blinds_nobody(servers: Servers, silent: bool) -> None:
    """New addresses of the other names are found, whether the name service refuses the one or keeps silent."""
    servers.known = [STAYS]
    notes: list[str] = []

    async def resolve(endpoint: Endpoint) -> Sequence[str]:
        if endpoint.host == "models":
            return list(servers.known)
        if silent:
            await asyncio.Event().wait()
        raise OSError(-2, "Name or service not known")

    pool = Pool([Endpoint("nobody", 1), Endpoint("models", 1)], PLAIN, resolver=resolve, notify=notes.append)
    await pool.connect()
    servers.known = [STAYS, LEAVES]
    async with asyncio.timeout(60):
        while len(pool.ready) < 2:
            await asyncio.sleep(0.01)
        servers.known = [LEAVES]
        while list(pool.replicas) != [LEAVES]:
            await asyncio.sleep(0.01)
    await pool.close()
    assert sum("the name nobody is not known" in note for note in notes) == 1


async def test_a_name_keeps_its_addresses_while_it_is_not_known(servers: Servers) -> None:
    lost = False

    async def resolve(endpoint: Endpoint) -> Sequence[str]:
        if endpoint.host == "other" and lost:
            raise OSError(-3, "Temporary failure in name resolution")
        return [STAYS] if endpoint.host == "models" else [LEAVES]

    pool = Pool([Endpoint("models", 1), Endpoint("other", 1)], PLAIN, resolver=resolve)
    await pool.connect()
    lost = True
    await pool._resolve()
    assert set(pool.replicas) == {STAYS, LEAVES}
    await pool.close()


async def test_a_replica_that_is_gone_leaves_nothing_behind(servers: Servers) -> None:
    """Of servers that do not say who they are: each is looked at by two tasks."""
    servers.known = ["127.0.0.1:100"]
    pool = Pool([Endpoint("models", 1)], PLAIN, resolver=servers.resolve)
    await pool.connect()
    async with asyncio.timeout(60):
        for port in range(101, 108):
            servers.known = [f"127.0.0.1:{port}"]
            while [replica.address for replica in pool.ready] != servers.known:
                await asyncio.sleep(0.01)
        while len(pool._tasks) > 3:  # the watch, and the looks at the one that is there
            await asyncio.sleep(0.01)
    assert len(pool._looks) == 1
    await pool.close()
