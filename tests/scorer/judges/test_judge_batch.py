"""The Batch API of a real HTTP server: failures are reported, nothing is lost and nothing submitted twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.judge_server import Vendor

from lyncean.rpc.budget import Budget
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome
from scorer.judges.options import Judging
from scorer.rules import rules
from scorer.scoring import Scorer


@pytest.fixture
def vendor() -> Vendor:
    return Vendor(lambda user: {"explanation": "because", "correct": "blue" in user.split("<answer>")[1]})


def judging(url: str, tmp_path: Path, **changes: Any) -> Judging:
    settings: dict[str, Any] = {"timeout": 5.0, "patience": 20.0, "poll": 0.05, **changes}
    return Judging(specs=(f"batch:judge@{url}",), key="k3y", cache=str(tmp_path / "judge.sqlite"), **settings)


def items(number: int) -> list[pb.ScoreRequest]:
    return [pb.ScoreRequest(key=str(n), rule="judge_answer", text=f"blue {n}", targets=["blue"]) for n in range(number)]


async def verdicts(settings: Judging, *requests: pb.ScoreRequest) -> list[pb.Verdict]:
    judges = settings.open()
    assert judges
    judges.judge._judge._gather = 0.05  # type: ignore[attr-defined]
    scorer = Scorer(rules(), judges.judge)
    try:
        return list(await asyncio.gather(*(scorer.verdict(request) for request in requests)))
    finally:
        await judges.close()


def reasons(done: list[pb.Verdict]) -> list[str]:
    return [verdict.reason if verdict.outcome == Outcome.UNJUDGED else str(verdict.outcome) for verdict in done]


async def test_a_batch_is_submitted_once_and_found_again_after_a_restart(
    url: str, vendor: Vendor, tmp_path: Path
) -> None:
    vendor.pending = 1_000_000
    settings = judging(url, tmp_path)
    wanted = items(6)
    judge = settings.open()
    assert judge
    judge.judge._judge._gather = 0.05  # type: ignore[attr-defined]
    scorer = Scorer(rules(), judge.judge)
    asking = asyncio.gather(*(scorer.verdict(request) for request in wanted), return_exceptions=True)
    while not judge.judge._judge._tasks:  # type: ignore[attr-defined]  # followed once it is on disk
        await asyncio.sleep(0.02)
    asking.cancel()
    await judge.close()
    assert len(vendor.batches) == 1
    vendor.batches["batch-0"]["left"] = 1
    # After the restart only one question comes at first; the batch's other replies are kept nevertheless.
    assert (await verdicts(settings, wanted[0]))[0].score == 1.0
    done = await verdicts(settings, *wanted)
    assert [verdict.outcome for verdict in done] == ["scored"] * 6
    assert len(vendor.batches) == 1
    assert vendor.charged == 6


async def test_an_expired_batch_gives_what_it_has(url: str, vendor: Vendor, tmp_path: Path) -> None:
    vendor.expire = True
    settings = judging(url, tmp_path)
    done = await verdicts(settings, *items(4))
    assert reasons(done) == ["scored", "scored", "judge_batch_expired", "judge_batch_expired"]
    assert vendor.charged == 2
    vendor.expire = False
    assert reasons(await verdicts(settings, *items(4))) == ["scored"] * 4
    assert set(vendor.asked.values()) == {1}


async def test_a_batch_that_failed_in_part_gives_what_it_has(url: str, vendor: Vendor, tmp_path: Path) -> None:
    spoilt = ["400", "broken", "schema", "refusal", "length", "missing", "garbled"]
    vendor.spoilt = dict(enumerate(spoilt))
    settings = judging(url, tmp_path)
    first = await verdicts(settings, *items(9))
    assert reasons(first) == [
        "judge_error",
        "judge_bad_json",
        "judge_wrong_schema",
        "judge_refused",
        "judge_truncated",
        "judge_batch_failed",
        "judge_batch_failed",
        "scored",
        "scored",
    ]
    assert "too many options" in first[0].detail
    vendor.spoilt = {}
    assert reasons(await verdicts(settings, *items(9))) == ["scored"] * 9
    assert len(vendor.batches) == 2
    # Only questions with unusable replies are asked again.
    assert Counter(vendor.asked.values()) == {1: 2 + 3, 2: 4}


async def test_replies_of_no_use_were_paid_for_all_the_same(url: str, vendor: Vendor, tmp_path: Path) -> None:
    vendor.spoilt = dict.fromkeys(range(3), "length")
    judges = judging(url, tmp_path, budget=Budget(max_tokens=400)).open()
    assert judges
    judges.judge._judge._gather = 0.05  # type: ignore[attr-defined]
    scorer = Scorer(rules(), judges.judge)
    done = [await asyncio.gather(*map(scorer.verdict, requests)) for requests in (items(4), items(5)[4:])]
    await judges.close()
    assert reasons(done[0]) == ["judge_truncated"] * 3 + ["scored"]
    # 4 of 110 tokens each; three of them bought nothing.
    assert reasons(done[1]) == ["judge_budget"]
    assert vendor.charged == 4


async def test_passing_faults_at_every_step(url: str, vendor: Vendor, tmp_path: Path) -> None:
    vendor.batch_faults = {
        "upload": ["reset", "429", "500"],
        "create": ["429", "429"],
        "poll": ["500", "reset"],
        "download": ["reset", "429", "500"],
    }
    assert reasons(await verdicts(judging(url, tmp_path), *items(3))) == ["scored"] * 3
    assert not any(vendor.batch_faults.values())
    assert len(vendor.batches) == 1
    assert vendor.charged == 3


async def test_what_may_have_been_submitted_is_not_submitted_again(url: str, vendor: Vendor, tmp_path: Path) -> None:
    vendor.batch_faults = {"create": ["500", "reset"]}
    settings = judging(url, tmp_path)
    assert reasons(await verdicts(settings, *items(2))) == ["judge_batch_failed"] * 2
    assert vendor.batch_faults == {"create": ["reset"]}
    assert reasons(await verdicts(settings, *items(2))) == ["judge_batch_failed"] * 2
    assert not vendor.batches


@pytest.mark.parametrize("step", ["poll", "download"])
async def test_a_batch_that_cannot_be_read_stays_remembered(
    url: str, vendor: Vendor, tmp_path: Path, step: str
) -> None:
    vendor.batch_faults = {step: ["500"] * 25}
    settings = judging(url, tmp_path, patience=2.0)
    assert reasons(await verdicts(settings, *items(3))) == ["judge_batch_failed"] * 3
    vendor.batch_faults = {}
    assert reasons(await verdicts(settings, *items(3))) == ["scored"] * 3
    assert len(vendor.batches) == 1
    assert vendor.charged == 3


async def test_a_batch_that_the_endpoint_forgot_is_forgotten_here(url: str, vendor: Vendor, tmp_path: Path) -> None:
    vendor.batch_faults = {"poll": ["404"]}
    settings = judging(url, tmp_path)
    assert reasons(await verdicts(settings, *items(2))) == ["judge_batch_failed"] * 2
    assert reasons(await verdicts(settings, *items(2))) == ["scored"] * 2
    assert len(vendor.batches) == 2


async def test_a_cache_that_cannot_be_written_does_not_cost_the_reply(url: str, vendor: Vendor, tmp_path: Path) -> None:
    settings = judging(url, tmp_path)
    judges = settings.open()
    assert judges
    judges.judge._judge._gather = 0.05  # type: ignore[attr-defined]
    judges.cache.call(lambda cache: cache._run("DROP TABLE batches", ()))
    (request,) = items(1)
    asking = asyncio.create_task(Scorer(rules(), judges.judge).verdict(request))
    done, _ = await asyncio.wait({asking}, timeout=300)
    assert done
    assert asking.result().outcome == "scored"
    assert "no such table: batches" in judges.cache.waits_for
    await judges.close()
