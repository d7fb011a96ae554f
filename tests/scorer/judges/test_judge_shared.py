"""Callers of one judge share its pauses, and the answer to a question in flight."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest
from helpers.engine_cluster import wait_for
from helpers.judge_server import Vendor

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.judges.asking import Cached
from scorer.judges.base import JudgeError, JudgePrompt, Reply
from scorer.judges.keeping import KeptReplies
from scorer.judges.options import Judging, Opened
from scorer.judges.throttle import Throttle
from scorer.rules import rules
from scorer.scoring import Scorer


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    endpoint = Vendor(lambda _: {"explanation": "because", "correct": True})
    yield endpoint
    endpoint.release.set()


def opened(url: str, concurrency: int = 64) -> Opened:
    judges = Judging(specs=(f"openai:judge@{url}",), key="k3y", concurrency=concurrency).open()
    assert judges
    return judges


def item(key: str, text: str = "blue") -> pb.ScoreRequest:
    return pb.ScoreRequest(key=key, rule="judge_answer", text=text, targets=["blue"])


async def test_a_pause_that_one_asker_is_told_of_is_every_askers() -> None:
    throttle, loop = Throttle(8), asyncio.get_running_loop()
    throttle.refused(0.3)
    over = loop.time() + 0.3
    entered: list[float] = []

    async def ask() -> None:
        async with throttle.slot():
            entered.append(loop.time())

    await asyncio.gather(ask(), ask(), ask())
    assert min(entered) >= over - 0.01


async def test_retry_after_pauses_later_questions(url: str, vendor: Vendor) -> None:
    vendor.faults = ["429 after"]  # it asks for 0.3 seconds
    judges = opened(url, concurrency=1)
    scorer = Scorer(rules(), judges.judge)
    await asyncio.gather(*(scorer.verdict(item(str(number), f"blue {number}")) for number in range(3)))
    await judges.close()
    refused, *others = vendor.times
    assert len(others) == 3
    assert min(others) - refused >= 0.3


async def test_a_question_that_is_paid_for_outlives_its_first_asker(url: str, vendor: Vendor) -> None:
    vendor.faults = ["hold"]
    judges = opened(url)
    scorer = Scorer(rules(), judges.judge)
    first = asyncio.create_task(scorer.verdict(item("a")))
    await asyncio.to_thread(wait_for, lambda: vendor.requests)
    second = asyncio.create_task(scorer.verdict(item("b")))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    vendor.release.set()
    verdict = await asyncio.wait_for(second, 60)
    assert (verdict.outcome, verdict.judge.cached) == ("scored", True)
    assert len(vendor.requests) == vendor.charged == 1
    await judges.close()


async def test_the_reply_to_an_abandoned_question_is_kept(url: str, vendor: Vendor) -> None:
    vendor.faults = ["hold"]
    judges = opened(url)
    scorer = Scorer(rules(), judges.judge)
    asking = asyncio.create_task(scorer.verdict(item("a")))
    await asyncio.to_thread(wait_for, lambda: vendor.requests)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    vendor.release.set()
    assert (await asyncio.wait_for(scorer.verdict(item("a")), 60)).judge.cached
    assert vendor.charged == 1
    await judges.close()


async def test_the_failure_of_an_abandoned_question_logs_no_traceback() -> None:
    messages: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: messages.append(context["message"]))
    away = asyncio.Event()

    class Failing:
        identity = "judge"
        waits_for = ""

        async def prepare(self) -> None: ...

        async def close(self) -> None: ...

        async def ask(self, prompt: JudgePrompt) -> Reply:
            await away.wait()
            raise JudgeError("judge_error", "not now")

    cache = KeptReplies(":memory:")
    judge = Cached(Failing(), cache)
    asking = asyncio.create_task(judge.ask(JudgePrompt("case/1", "", "", {})))
    while not judge._waiting:
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    away.set()
    while judge._waiting:
        await asyncio.sleep(0.01)
    await cache.close()
    del asking  # it holds the question
    gc.collect()
    assert not messages
