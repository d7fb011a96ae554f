"""Replicas that come and go, are slow, or have a bad network; real servers, the engine in this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import toybench
from helpers.engine_cluster import Cluster, Server
from helpers.engine_proxy import Proxy

from lyncean import rpc
from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from lyncean.rpc import PLAIN
from orchestrator.engine import (
    Endpoint,
    Engine,
    Ledger,
    Options,
    Pool,
    ScorerClient,
    parse_endpoints,
    pool as pool_module,
)
from orchestrator.engine.accounting import Accounting
from orchestrator.engine.resolve import resolve
from orchestrator.errors import ConfigError
from orchestrator.run_folder.log import RunLog
from orchestrator.samples import Variant

ROWS = 150


class OneAtATime(model_pb2_grpc.ModelServiceServicer):
    """Works on one call at a time; up to two more may wait."""

    def __init__(self) -> None:
        self.work = asyncio.Semaphore(1)
        self.here = self.most = 0

    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        claims = [model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT]
        return model.GetModelInfoResponse(model_name="one", capabilities=claims, max_concurrency=1, max_waiting=2)

    async def Generate(self, request: Any, context: Any) -> model.GenerateResponse:  # noqa: N802
        self.here += 1
        self.most = max(self.most, self.here)
        try:
            async with self.work:
                await asyncio.sleep(0.02)
        finally:
            self.here -= 1
        return model.GenerateResponse(parts=[model.Part(text="A")], finish_reason=model.FINISH_REASON_END_OF_SEQUENCE)


async def run(path: Path, pool: Pool, scorer: Endpoint, *meanwhile: Any, timeout: float = 10.0) -> Accounting:
    variant = Variant("toy", settings=toybench.Settings())
    rows = toybench.synthetic("toy", 0)
    samples = (sample for _, row in zip(range(ROWS), rows, strict=False) for sample in toybench.samples(row, variant))
    log = RunLog(path)
    client = ScorerClient(scorer, PLAIN, patience=20.0)
    accounting = Accounting()
    try:
        await pool.connect()
        engine = Engine(samples, Ledger(log, accounting), {"": pool}, client, Options(timeout=timeout, patience=30.0))
        await asyncio.gather(engine.run(), *meanwhile)
    finally:
        await pool.close()
        await client.close()
        log.close()
    return accounting


def endpoint(server: Server) -> Endpoint:
    return Endpoint("127.0.0.1", server.port)


def whole(accounting: Accounting) -> None:
    assert accounting.planned == ROWS
    assert dict(accounting.outcomes) == {"scored": ROWS}


async def test_addresses_change_while_running(
    cluster: Cluster, shared_scorer: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "RESOLVE_SECONDS", 0.1)
    servers = [cluster.model("--delay", "0.05", "--concurrency", "2") for _ in range(3)]
    known = [servers[0].address]

    def calls() -> list[list[str]]:
        return [(server.folder / "calls").read_text().split() for server in servers]

    async def reached(number: int) -> None:
        async with asyncio.timeout(300):
            while len(calls()[number]) < 10:
                await asyncio.sleep(0.01)

    async def resolver(_: Endpoint) -> Sequence[str]:
        if not known:
            raise OSError("the name service stumbles")
        return list(known)

    async def meanwhile() -> None:
        await reached(0)
        known.append(servers[1].address)
        await reached(1)
        known[:] = []
        await asyncio.sleep(0.3)
        known[:] = [servers[2].address]
        await reached(2)

    notes: list[str] = []
    pool = Pool([Endpoint("models", 1)], PLAIN, resolver=resolver, notify=notes.append)
    whole(await run(tmp_path / "run", pool, endpoint(shared_scorer), meanwhile()))
    assert Counter(row for answered in calls() for row in answered) == {str(n): 1 for n in range(ROWS)}
    assert [note for note in notes if "is gone" in note and servers[0].address in note]


async def test_a_slow_replica_is_given_less(cluster: Cluster, shared_scorer: Server, tmp_path: Path) -> None:
    flags = ("--concurrency", "2")
    slow, *quick = [cluster.model("--delay", delay, *flags) for delay in ("0.16", "0.04", "0.04")]
    pool = Pool([endpoint(server) for server in (slow, *quick)], PLAIN)
    whole(await run(tmp_path / "run", pool, endpoint(shared_scorer)))
    shares = [len((server.folder / "calls").read_text().split()) for server in (slow, *quick)]
    # 1 : 4 : 4 would be 17 of 150; an even hand would give it 50.
    assert shares[0] < 30
    assert min(shares[1:]) > 50


@pytest.mark.parametrize(
    ("concurrency", "timeout", "most"),
    [
        (None, 10.0, 3),  # what it works on, and what may wait
        (1, 10.0, 1),  # as the user says
        (None, 0.15, 1),  # what would wait could come too late
    ],
)
async def test_calls_wait_at_a_replica_where_they_may(
    shared_scorer: Server, tmp_path: Path, concurrency: int | None, timeout: float, most: int
) -> None:
    servicer = OneAtATime()
    served = rpc.Server(
        rpc.ServerConfig(),
        "lyncean.model.v1.ModelService",
        lambda to: model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, to),
    )
    await served.start()
    await served.set_serving()
    pool = Pool([Endpoint("127.0.0.1", served.port)], PLAIN, concurrency=concurrency)
    try:
        accounting = await run(tmp_path / "run", pool, endpoint(shared_scorer), timeout=timeout)
    finally:
        await served.stop()
    assert accounting.settled == ROWS
    assert servicer.most == most


@pytest.mark.parametrize("whim", [{"drop": 0.02}, {"delay": 0.05}, {"half_close": 0.02}, {"drop": 0.01, "delay": 0.02}])
async def test_a_bad_network(cluster: Cluster, shared_scorer: Server, tmp_path: Path, whim: dict[str, float]) -> None:
    server = cluster.model("--concurrency", "4")
    to_model, to_scorer = Proxy(server.port, **whim), Proxy(shared_scorer.port, **whim, seed=1)
    async with to_model as model_port, to_scorer as scorer_port:
        pool = Pool([Endpoint("127.0.0.1", model_port)], PLAIN)
        whole(await run(tmp_path / "run", pool, Endpoint("127.0.0.1", scorer_port)))
    lines = (tmp_path / "run" / "responses.jsonl").read_bytes().splitlines()
    assert len(lines) == ROWS
    if "delay" not in whim:
        assert to_model.cut


async def test_names_and_literals() -> None:
    assert parse_endpoints(["a:1,b:2", "a:1", "[::1]:3"]) == (Endpoint("a", 1), Endpoint("b", 2), Endpoint("::1", 3))
    assert await resolve(Endpoint("127.0.0.1", 5)) == ["127.0.0.1:5"]
    assert "127.0.0.1:5" in await resolve(Endpoint("localhost", 5))
    for word in ("a", "a:0", "a:99999", ":5", "a:x"):
        with pytest.raises(ConfigError, match="host:port"):
            parse_endpoints([word])
