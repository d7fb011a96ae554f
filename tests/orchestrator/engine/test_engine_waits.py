"""Waits for a scorer that keeps its connection and answers nothing: each has an end and a sentence."""

from __future__ import annotations

import asyncio
import gc
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import HERE, Cluster, Server, wait_for

from lyncean.rpc import PLAIN, Unavailable
from lyncean.rpc.waits import Waits
from lyncean.scorer.v1 import scorer_pb2 as pb
from orchestrator.engine import Endpoint, ScorerClient, scoring as scoring_module
from orchestrator.errors import IncompleteError
from orchestrator.run.local_scorer import LocalChannel
from orchestrator.run_folder.records import scoring_json
from orchestrator.samples import Scoring
from scorer import service
from scorer.judges.base import Judge, JudgePrompt, Reply
from scorer.metrics import metrics
from scorer.rules import rules
from scorer.scoring import Scorer
from scorer.telemetry import NoTelemetry

CHOICE = scoring_json(Scoring("choice", targets=("A",))) or {}
ITEM = pb.ScoreRequest(key="toy/1", rule="choice", text="A", targets=["A"])


def servicer(judge: Judge | None = None) -> service.Servicer:
    return service.Servicer(Scorer(rules(), judge, "unparsed"), metrics(), (), NoTelemetry())


@pytest.fixture
def silent(cluster: Cluster, tmp_path: Path) -> Server:
    """A scorer that is silent while the file `silent` is there."""
    command = [sys.executable, str(HERE / "silent_scorer.py"), "--silent", str(tmp_path / "silent")]
    server = Server(tmp_path / "scorer", command)
    cluster.servers.append(server.start())
    return server


@asynccontextmanager
async def impatient(server: Server, notes: list[str], patch: pytest.MonkeyPatch) -> AsyncIterator[ScorerClient]:
    patch.setattr(scoring_module, "_LEAST_SILENCE", 0.0)
    scorer_client = ScorerClient(Endpoint("127.0.0.1", server.port), PLAIN, patience=1.0, notify=notes.append)
    yield scorer_client
    await scorer_client.close()


async def test_a_silent_stream_of_answers_is_given_up(
    silent: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "silent").touch()
    async with impatient(silent, [], monkeypatch) as client:
        client.put(ITEM, CHOICE)
        with pytest.raises(IncompleteError, match=r"does not answer \(DEADLINE_EXCEEDED: it keeps silent\).*is safe"):
            await asyncio.wait_for(client.run(), 60)


async def test_a_silent_preflight_and_summary_are_given_up(
    silent: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "silent").touch()
    async with impatient(silent, [], monkeypatch) as client:
        with pytest.raises(IncompleteError, match="keeps silent"):
            await asyncio.wait_for(client.try_out([ITEM]), 60)
        with pytest.raises(IncompleteError, match="keeps silent"):
            await asyncio.wait_for(client.summarize(tuple, [pb.MetricSpec(name="a", metric="accuracy")]), 60)


def test_one_sigterm_ends_a_run_whose_scorer_is_silent(cluster: Cluster, silent: Server, tmp_path: Path) -> None:
    server = cluster.model()
    process = cluster.start(*cluster.words("run", [server], silent, "--limit", "40"))
    wait_for(lambda: cluster.answered() > 0 and not (tmp_path / "silent").touch())
    wait_for(lambda: cluster.answered() == 40)
    process.send_signal(signal.SIGTERM)
    output = cluster.ended(process, 3)
    assert "run the same command again to resume" in output
    assert "finishing requests in flight" in output


class Slow:
    """A judge that answers once it is let."""

    identity, waits_for = "slow", "the judge at 127.0.0.1:9: RESOURCE_EXHAUSTED\x1b[1m"

    def __init__(self) -> None:
        self.answers = asyncio.Event()

    async def ask(self, prompt: JudgePrompt) -> Reply:
        await self.answers.wait()
        return Reply({"choice": "A"}, '{"choice": "A"}', "slow")

    async def close(self) -> None:
        pass


async def test_a_slow_judge_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scorer says every few seconds that it is at work, and the run says what it waits for."""
    monkeypatch.setattr(service, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr("lyncean.rpc.waits.SAID_AFTER", 1e-9)
    judge, waits, verdicts = Slow(), Waits(), list[str]()
    channel = LocalChannel(servicer(judge))
    client = ScorerClient(None, PLAIN, patience=60.0, channel=channel, waits=waits)
    client.on_verdict = lambda verdict, *_: verdicts.append(verdict.outcome)
    client.put(pb.ScoreRequest(key="toy/1", rule="choice", text="hm", targets=["A"], options=["a", "b"]), CHOICE)
    running = asyncio.create_task(client.run())
    async with asyncio.timeout(60):
        while "RESOURCE_EXHAUSTED" not in str(waits):
            await asyncio.sleep(0.01)
    assert "\x1b" not in str(waits)
    assert client._silence_wait.left > 1.0
    judge.answers.set()
    await asyncio.wait_for(client.finish(), 60)
    await asyncio.wait_for(running, 60)
    assert verdicts == ["scored"]
    assert str(waits) == ""


def test_bytes_that_wait_for_the_scorer_are_bounded() -> None:
    async def fill() -> int:
        client = ScorerClient(None, PLAIN, patience=60.0, channel=LocalChannel(servicer()))
        count = 0
        while client.room and count < 100:
            client.put(pb.ScoreRequest(key=f"toy/{count}", rule="choice", text="A" * (1 << 20)), CHOICE)
            count += 1
        return count

    assert asyncio.run(fill()) == 32


class Breaking:
    """A scorer that reads the items of its first stream and breaks off; it answers those of the second.

    Args:
        answered: How many items of the first it answers before.
    """

    def __init__(self, answered: int) -> None:
        self.answered, self.streams = answered, list[list[str]]()

    async def ListRules(self, request: Any, context: Any) -> pb.ListRulesResponse:  # noqa: N802
        return pb.ListRulesResponse()

    async def Score(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.streams.append(keys := [])
        async for message in requests:
            keys += [item.key for item in message.items]
            first = len(self.streams) == 1
            kept = message.items[: self.answered] if first else message.items
            yield pb.ScorerServiceScoreResponse(verdicts=[verdict_of(item.key) for item in kept])
            if first:
                raise Unavailable("away", "it breaks off")


def verdict_of(key: str) -> pb.Verdict:
    return pb.Verdict(key=key, outcome="scored", score=1.0)


@pytest.mark.parametrize("answered", [0, 2])
async def test_what_was_not_acknowledged_is_sent_again_after_a_break(answered: int) -> None:
    breaking, verdicts = Breaking(answered), list[str]()
    client = ScorerClient(None, PLAIN, patience=60.0, channel=LocalChannel(breaking))
    client.on_verdict = lambda verdict, *_: verdicts.append(verdict.key)
    keys = [f"toy/{number}" for number in range(5)]
    for key in keys:
        client.put(pb.ScoreRequest(key=key, rule="choice", text="A", targets=["A"]), CHOICE)
    running = asyncio.create_task(client.run())
    await asyncio.wait_for(client.finish(), 60)
    await asyncio.wait_for(running, 60)
    assert verdicts == keys
    assert breaking.streams == [keys, keys[answered:]]


async def test_a_scorer_that_breaks_off_again_and_again_is_waited_for_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lyncean.rpc.waits.SAID_AFTER", 0.5)
    monkeypatch.setattr(scoring_module, "backoff", lambda _: 0.1)  # no wait alone is long

    class Lost(Breaking):
        async def Score(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
            if mended.is_set():
                async for message in requests:
                    yield pb.ScorerServiceScoreResponse(verdicts=[verdict_of(item.key) for item in message.items])
            else:
                raise Unavailable("judge_cache_lost", "the judge cache kept silent")
                yield

    mended, waits, lines = asyncio.Event(), Waits(), list[str]()
    client = ScorerClient(None, PLAIN, patience=60.0, channel=LocalChannel(Lost(0)), waits=waits, notify=lines.append)
    client.put(ITEM, CHOICE)
    running = asyncio.create_task(client.run())
    async with asyncio.timeout(60):
        while "the judge cache kept silent" not in str(waits) or not lines:
            await asyncio.sleep(0.01)
    assert re.fullmatch(r"waiting for the scorer at this process for \d+ s: UNAVAILABLE.*kept silent", str(waits))
    assert len(lines) == 1
    assert lines[0].startswith("waiting for the scorer at this process for ")
    mended.set()
    await asyncio.wait_for(client.finish(), 60)
    await asyncio.wait_for(running, 60)
    assert str(waits) == ""


async def test_a_broken_message_behind_the_last_verdict_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    class Repeating(Breaking):
        async def Score(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
            async for message in requests:
                verdicts = [verdict_of(item.key) for item in message.items]
                yield pb.ScorerServiceScoreResponse(verdicts=[*verdicts, *verdicts])

    client = ScorerClient(None, PLAIN, patience=60.0, channel=LocalChannel(Repeating(0)))
    client.put(ITEM, CHOICE)
    running = asyncio.create_task(client.run())
    await asyncio.wait_for(client.finish(), 60)
    await asyncio.wait_for(running, 60)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_work_that_fails_as_its_wait_is_cancelled_is_no_traceback(turns: int) -> None:
    untold: list[str] = []

    async def fails() -> None:
        raise ValueError("it breaks the contract")

    async def cancelled() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: untold.append(context["message"]))
        wait = Waits().add("the scorer", 60.0)
        wait.begin()
        waiting = asyncio.create_task(wait.bound(fails()))
        for _ in range(turns):  # the work has failed, and who waits does not know yet
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(cancelled())
    gc.collect()
    assert not untold
