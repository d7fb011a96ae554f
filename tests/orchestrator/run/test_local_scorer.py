"""The scorer within a run's own process says what one in a process of its own says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from helpers.engine_cluster import Server

import orchestrator
from lyncean.rpc import PLAIN
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine import Endpoint, ScorerClient
from orchestrator.errors import EngineError
from orchestrator.run.local_scorer import local_scorer
from scorer.metrics import FOREIGN

METRICS = [scorer.MetricSpec(name="accuracy", metric="accuracy")]
ANSWERS = ("B", "The answer is (A).", "I cannot help with that.", "dog", "")


def item(number: int, rule: str = "choice") -> scorer.ScoreRequest:
    text = ANSWERS[number % len(ANSWERS)]
    return scorer.ScoreRequest(key=f"t/{number}", rule=rule, targets=["B"], options=["cat", "dog"], text=text)


async def test_a_client_scores_again_after_its_end() -> None:
    verdicts: list[str] = []
    async with client(None) as scorer_client:
        scorer_client.on_verdict = lambda verdict, _scoring, _request: verdicts.append(verdict.key)
        for number in range(3):
            running = asyncio.create_task(scorer_client.run())
            await asyncio.sleep(0)  # it waits for something to do
            scorer_client.put(item(number), {})
            await asyncio.wait_for(asyncio.gather(scorer_client.finish(), running), 60)
    assert verdicts == ["t/0", "t/1", "t/2"]


@asynccontextmanager
async def client(server: Server | None) -> AsyncIterator[ScorerClient]:
    """A client of a server, or of the scorer in this process."""
    if server is None:
        channel = local_scorer({"accuracy"})
        assert channel
        scorer_client = ScorerClient(None, PLAIN, patience=60.0, channel=channel)
    else:
        scorer_client = ScorerClient(Endpoint("127.0.0.1", server.port), PLAIN, patience=60.0)
    yield scorer_client
    await scorer_client.close()


async def scored(server: Server | None) -> list[bytes]:
    """Returns all that a scorer says: its rules, its verdicts of a stream, and their summary."""
    verdicts: list[scorer.Verdict] = []
    async with client(server) as scorer_client:
        rules = await scorer_client.list_rules()
        scorer_client.on_verdict = lambda verdict, _scoring, _request: verdicts.append(verdict)
        running = asyncio.create_task(scorer_client.run())
        for number in range(150):
            scorer_client.put(item(number), {})
        await scorer_client.finish()
        await running
        settled = [item(number) for number in range(150)]
        for stored, verdict in zip(settled, sorted(verdicts, key=lambda one: int(one.key[2:])), strict=True):
            stored.verdict.CopyFrom(verdict)
        summary = await scorer_client.summarize(lambda: settled, METRICS)
    assert {verdict.outcome for verdict in verdicts} == {Outcome.SCORED, Outcome.UNPARSED, Outcome.REFUSED}
    return [message.SerializeToString(deterministic=True) for message in (rules, *settled, summary)]


async def test_it_says_what_a_server_says(shared_scorer: Server) -> None:
    assert await scored(None) == await scored(shared_scorer)


async def test_it_fails_as_a_server_fails(shared_scorer: Server) -> None:
    messages = []
    for server in (None, shared_scorer):
        async with client(server) as scorer_client:
            with pytest.raises(EngineError) as caught:
                await scorer_client.try_out([item(0), item(1, "no_such_rule")])
            messages.append(str(caught.value).replace("this process", "there").replace(shared_scorer.address, "there"))
    assert messages[0] == messages[1]
    assert "no_such_rule" in messages[0]


def test_code_of_others_gets_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FOREIGN:
        assert local_scorer({"accuracy", name}) is None
    assert local_scorer({"accuracy"})
    with monkeypatch.context() as here:
        here.setattr(orchestrator, "__file__", str(tmp_path / "orchestrator" / "__init__.py"))
        assert local_scorer({"accuracy"}) is None  # what is called scorer is another package
    (info := tmp_path / "mine-1.0.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lyncean.rules]\nmine = mine:RULE\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert local_scorer({"accuracy"}) is None
