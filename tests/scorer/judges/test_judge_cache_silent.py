"""A judge cache that does not answer: the scorer stays responsive, reports it, and pays for no reply twice."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import Server, wait_for
from helpers.judge_server import Vendor
from helpers.postgres import Postgres, running
from helpers.silent_proxy import SilentProxy

from lyncean.rpc import dial
from lyncean.rpc.channel import is_serving
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc
from scorer.judges import cache as cache_module, keeping
from scorer.judges.cache import Cache
from scorer.judges.keeping import CacheLost
from scorer.judges.options import Judging, Opened
from scorer.rules import rules
from scorer.scoring import Scorer

pytest.importorskip("psycopg", reason="the extra postgres is not installed")


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    endpoint = Vendor(lambda _: {"explanation": "because", "correct": True})
    yield endpoint
    endpoint.release.set()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[SilentProxy]:
    with SilentProxy(postgres.port) as endpoint:
        yield endpoint


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(cache_module, "BUSY_SECONDS", 1)


def address(port: int) -> str:
    return f"postgresql://lyncean@127.0.0.1:{port}/postgres"


def opened(url: str, cache: str) -> Opened:
    judges = Judging(specs=(f"openai:judge@{url}",), key="k3y", cache=cache).open()
    assert judges
    return judges


def item(text: str) -> pb.ScoreRequest:
    return pb.ScoreRequest(key=text, rule="judge_answer", text=text, targets=["blue"])


def rows(cache: str) -> int:
    return len(Cache(cache)._run("SELECT prompt FROM replies", ()))


async def test_a_scorer_whose_postgres_goes_silent_stays_awake(
    url: str, vendor: Vendor, proxy: SilentProxy, tmp_path: Path
) -> None:
    arguments = ["--judge", f"openai:judge@{url}", "--judge-cache", address(proxy.port)]
    server = Server(tmp_path, [sys.executable, "-m", "scorer", "serve", *arguments]).start()
    try:
        async with dial(server.address) as channel:
            stub = scorer_pb2_grpc.ScorerServiceStub(channel)

            async def score(text: str) -> list[str]:
                message = pb.ScorerServiceScoreRequest(items=[item(text)])
                return [v.outcome async for r in stub.Score(iter([message]), timeout=60) for v in r.verdicts]

            assert await score("blue 1") == ["scored"]
            proxy.silent.set()
            asking = asyncio.create_task(score("blue 2"))
            await asyncio.sleep(0.5)
            assert await is_serving(channel, "lyncean.scorer.v1.ScorerService", timeout=60)
            with pytest.raises(
                Exception, match="the judge cache cannot be asked: the judge cache kept silent"
            ) as caught:
                await asking
            assert caught.value.code().name == "UNAVAILABLE"  # type: ignore[attr-defined]
            assert vendor.charged == 1, "a question that may be paid for was sent"
            proxy.silent.clear()
            assert await score("blue 2") == await score("blue 1") == ["scored"]
            assert vendor.charged == 2
            proxy.silent.set()
            asking = asyncio.create_task(score("blue 3"))
            await asyncio.sleep(0.2)
            server.signal(signal.SIGTERM)
            assert server.process
            await asyncio.to_thread(server.process.wait, 60)
            asking.cancel()
    finally:
        server.kill()


async def test_a_reply_that_cannot_be_kept_is_used_and_kept_later(
    url: str, vendor: Vendor, proxy: SilentProxy, postgres: Postgres, soon: None
) -> None:
    before = rows(postgres.address)
    vendor.faults = ["hold"]
    judges = opened(url, address(proxy.port))
    scorer = Scorer(rules(), judges.judge)
    asking = asyncio.create_task(scorer.verdict(item("blue held")))
    await asyncio.to_thread(wait_for, lambda: vendor.requests)
    proxy.silent.set()
    vendor.release.set()
    assert (await asking).outcome == "scored"
    again = await scorer.verdict(item("blue held"))
    assert (again.outcome, again.judge.cached, vendor.charged) == ("scored", True, 1)
    with pytest.raises(CacheLost):
        await scorer.verdict(item("blue other"))
    assert "the judge cache" in judges.judge.waits_for
    proxy.silent.clear()
    async with asyncio.timeout(60):
        while await asyncio.to_thread(rows, postgres.address) == before:
            await asyncio.sleep(0.1)
    assert (await scorer.verdict(item("blue held"))).judge.cached
    assert vendor.charged == 1
    await judges.close()


async def test_a_lock_of_another_process_stops_nothing(url: str, vendor: Vendor, tmp_path: Path, soon: None) -> None:
    file = str(tmp_path / "judge.sqlite")
    judges = opened(url, file)
    scorer = Scorer(rules(), judges.judge)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    assert (await scorer.verdict(item("blue"))).outcome == "scored"
    ticking.cancel()
    assert ticks > 10, "the event loop stood still"
    assert (await scorer.verdict(item("blue"))).judge.cached
    other.execute("ROLLBACK")
    await judges.close()
    assert (rows(file), vendor.charged) == (1, 1)


def test_a_postgres_that_accepts_and_never_answers_ends_the_start(proxy: SilentProxy, tmp_path: Path) -> None:
    proxy.silent.set()
    arguments = [
        sys.executable,
        "-m",
        "scorer",
        "serve",
        "--port",
        "0",
        "--judge",
        "openai:judge@http://127.0.0.1:9/v1",
    ]
    done = subprocess.run(
        [*arguments, "--judge-cache", address(proxy.port)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    # On a busy machine the connection's own limit comes second.
    assert "cannot open the judge cache in PostgreSQL" in done.stderr or "judge cache does not answer" in done.stderr
    assert len(done.stderr.splitlines()) == 1
