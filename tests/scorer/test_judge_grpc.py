"""A judge behind lynceus.model.v1: a real server."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lynceus.model.v1 import model_pb2 as model
from lynceus.model.v1 import model_pb2_grpc
from lynceus.outcomes import Outcome
from lynceus.rpc import Server, ServerConfig, Unavailable
from lynceus.scorer.v1 import scorer_pb2 as pb
from scorer.judges import model_service
from scorer.judges.budget import Budget
from scorer.judges.options import Judging
from scorer.rules import rules
from scorer.scoring import Scorer


class Model(model_pb2_grpc.ModelServiceServicer):
    def __init__(self) -> None:
        self.revision = "1"
        self.introduced = 0
        self.loading = 0
        self.asked = 0
        self.words = json.dumps({"explanation": "because", "correct": True})

    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        if self.loading:
            self.loading -= 1
            raise Unavailable("loading", "the weights are being loaded")
        self.introduced += 1
        return model.GetModelInfoResponse(model_name="judge", model_revision=self.revision)

    async def Generate(self, request: Any, context: Any) -> model.GenerateResponse:  # noqa: N802
        self.asked += 1
        return model.GenerateResponse(
            parts=[model.Part(text=self.words)],
            finish_reason=model.FINISH_REASON_END_OF_SEQUENCE,
            usage=model.Usage(input_tokens=90, output_tokens=10),
        )


@pytest.fixture
async def served() -> AsyncIterator[tuple[Model, int]]:
    servicer = Model()
    server = Server(
        ServerConfig(grace=1.0),
        "lynceus.model.v1.ModelService",
        lambda to: model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, to),
    )
    port = await server.start()
    yield servicer, port
    await server.stop()


async def verdicts(port: int, cache: Path, number: int = 4, patience: float = 20.0, **more: Any) -> list[pb.Verdict]:
    spec = f"grpc:127.0.0.1:{port}"
    judges = Judging(**{"specs": (spec,), "cache": str(cache), "timeout": 10.0, "patience": patience} | more).open()
    assert judges
    scorer = Scorer(rules(), judges.judge)
    requests = [
        pb.ScoreRequest(key=str(n), rule="judge_answer", text=f"blue {n}", targets=["blue"]) for n in range(number)
    ]
    try:
        return list(await asyncio.gather(*(scorer.verdict(request) for request in requests)))
    finally:
        await judges.close()


async def test_what_a_model_was_asked_before_a_restart_is_not_asked_again(
    served: tuple[Model, int], tmp_path: Path
) -> None:
    servicer, port = served
    cache = tmp_path / "judge.sqlite"
    first = await verdicts(port, cache)
    assert [verdict.outcome for verdict in first] == ["scored"] * 4
    assert (servicer.asked, servicer.introduced) == (4, 1)
    again = await verdicts(port, cache)
    assert all(verdict.judge.cached for verdict in again)
    assert servicer.asked == 4
    servicer.revision = "2"  # other weights: another judge
    await verdicts(port, cache)
    assert servicer.asked == 8


async def test_a_reply_of_no_use_was_paid_for_all_the_same(served: tuple[Model, int], tmp_path: Path) -> None:
    servicer, port = served
    servicer.words = "Sure! It is correct."
    done = await verdicts(port, tmp_path / "judge.sqlite", 5, budget=Budget(max_tokens=150), concurrency=1)
    assert sorted(verdict.reason for verdict in done) == ["judge_bad_json"] * 2 + ["judge_budget"] * 3
    assert servicer.asked == 2


async def test_a_model_that_still_loads_is_waited_for(
    served: tuple[Model, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_service, "REACH_SECONDS", 0.0)
    servicer, port = served
    servicer.loading = 2
    done = await verdicts(port, tmp_path / "judge.sqlite")
    assert [verdict.outcome for verdict in done] == ["scored"] * 4
    servicer.loading = 1_000
    late = await verdicts(port, tmp_path / "other.sqlite", patience=1.0)
    assert {verdict.reason for verdict in late} == {"judge_unreachable"}
    assert "the weights are being loaded" in late[0].detail


async def test_a_model_that_is_not_there_leaves_items_unjudged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_service, "REACH_SECONDS", 1.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        done = await verdicts(port, tmp_path / "judge.sqlite")
    assert {(verdict.outcome, verdict.reason) for verdict in done} == {(Outcome.UNJUDGED, "judge_unreachable")}
    assert f"127.0.0.1:{port}" in done[0].detail
