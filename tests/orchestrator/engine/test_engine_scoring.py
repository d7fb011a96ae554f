"""Waiting for scorers: real processes, with the client in this one."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from helpers.engine_cluster import HERE, Cluster, Server

from lyncean.rpc import PLAIN
from orchestrator.engine import Endpoint, ScorerClient, scoring as scoring_module
from orchestrator.errors import IncompleteError


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without patience the first failure ends the wait, and is reported at once."""
    monkeypatch.setattr(scoring_module, "REACH_SECONDS", 0.0)
    monkeypatch.setattr(scoring_module, "_TELL_SECONDS", 0.0)


@asynccontextmanager
async def client(port: int, notes: list[str], patience: float = 60.0) -> AsyncIterator[ScorerClient]:
    scorer_client = ScorerClient(Endpoint("127.0.0.1", port), PLAIN, patience=patience, notify=notes.append)
    yield scorer_client
    await scorer_client.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def loading(cluster: Cluster, tmp_path: Path) -> Server:
    """A scorer that is there and not ready."""
    (tmp_path / "loading").touch()
    flags = ["--loading", str(tmp_path / "loading"), "--log", str(tmp_path / "calls")]
    server = Server(tmp_path / "scorer", [sys.executable, str(HERE / "engine_scorer.py"), *flags])
    cluster.servers.append(server.start())
    return server


def calls(tmp_path: Path) -> int:
    return len((tmp_path / "calls").read_text().split())


async def test_a_scorer_that_still_loads_is_waited_for(loading: Server, tmp_path: Path) -> None:
    notes: list[str] = []
    async with client(loading.port, notes) as scorer:
        asking = asyncio.create_task(scorer.list_rules())
        await until(lambda: calls(tmp_path) >= 4)
        (tmp_path / "loading").unlink()
        assert (await asking).scorer_version == "loaded"
    assert len(notes) == 1
    assert f"waiting for the scorer at 127.0.0.1:{loading.port}" in notes[0]


async def test_a_scorer_that_never_gets_ready_is_given_up_when_patience_ends(loading: Server, tmp_path: Path) -> None:
    async with client(loading.port, [], patience=0.5) as scorer:
        with pytest.raises(IncompleteError, match="the rules are being loaded"):
            await scorer.list_rules()
    assert calls(tmp_path) > 1


async def test_a_scorer_that_was_reached_and_stands_still_is_waited_for(
    loading: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    (tmp_path / "loading").unlink()
    async with client(loading.port, notes) as scorer:
        await scorer.list_rules()
        monkeypatch.setattr(scoring_module, "_LIST_SECONDS", 0.5)
        loading.signal(signal.SIGSTOP)
        asking = asyncio.create_task(scorer.list_rules())
        await until(lambda: len(notes) > 0)
        # Longer than a call may take: what would be given up is by then.
        done, _ = await asyncio.wait({asking}, timeout=2.0)
        assert not done
        monkeypatch.setattr(scoring_module, "_LIST_SECONDS", 10.0)
        loading.signal(signal.SIGCONT)
        assert (await asking).scorer_version == "loaded"


@pytest.mark.full
async def test_what_never_spoke_is_not_waited_for(loading: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring_module, "_LIST_SECONDS", 0.5)
    loading.signal(signal.SIGSTOP)  # the kernel accepts connections for it; whether it is a scorer, nobody can know
    async with client(loading.port, []) as scorer:
        with pytest.raises(IncompleteError, match="does not answer"):
            await scorer.list_rules()


async def test_an_address_without_a_server_is_not_waited_for() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        async with client(probe.getsockname()[1], []) as scorer:
            with pytest.raises(IncompleteError, match="does not answer"):
                await scorer.list_rules()
