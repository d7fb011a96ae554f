"""Servers whose answers do not say who gave them (no boot_id), by real gRPC: looks, slots and what results say."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from rich.console import Console
from simulation.world import plan_of

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import PLAIN, CallError
from orchestrator.engine import pool
from orchestrator.engine.replica import Replica
from orchestrator.errors import ConfigError
from orchestrator.run.evaluate import evaluate
from orchestrator.run_folder.origins import UNVERIFIED

SLOTS = 8
ANSWER = model.GenerateResponse(parts=[model.Part(text="A")], finish_reason=model.FINISH_REASON_END_OF_SEQUENCE)


class Nameless(grpc.GenericRpcHandler):
    """Answers at once; each call is one of two checkpoints', by lot, as behind a proxy that spreads calls."""

    def __init__(self, share: float = 0.0) -> None:
        self.share, self.answers = share, 0
        self.lots = random.Random(1)
        self.looking = asyncio.Event()
        self.looking.set()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def reply(request: bytes, context: Any) -> bytes:
            if not details.method.endswith("GetModelInfo"):
                self.answers += 1
                return ANSWER.SerializeToString()
            if self.answers:
                await self.looking.wait()
            return model.GetModelInfoResponse(
                model_name="m",
                model_revision="2" if self.answers and self.lots.random() < self.share else "1",
                capabilities=[model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT],
                max_concurrency=SLOTS,
            ).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(reply)


@asynccontextmanager
async def serving(handler: Nameless) -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([handler])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_a_proxy_that_spreads_calls_over_two_checkpoints_ends_the_run(
    shared_scorer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RESOLVE_SECONDS", 0.2)
    async with serving(Nameless(share=0.06)) as address:
        plan = plan_of("generate", 400, 1, address, shared_scorer.address)
        with pytest.raises(ConfigError, match=r"answers as several models by turns \(model_revision is '2', not '1'\)"):
            await evaluate(plan, Console(quiet=True), run=tmp_path / "run")


async def test_answers_that_wait_for_a_look_keep_their_slots(shared_scorer: Any, tmp_path: Path) -> None:
    """A process that is killed loses no more answers than there are slots, and these are asked again."""
    handler = Nameless()
    handler.looking.clear()
    async with serving(handler) as address:
        plan = plan_of("generate", 64, 1, address, shared_scorer.address)
        going = asyncio.create_task(evaluate(plan, Console(quiet=True), run=tmp_path / "run"))
        while handler.answers < SLOTS:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert handler.answers == SLOTS
        handler.looking.set()
        await going
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["model"]["doubt"] == UNVERIFIED


async def test_a_look_confirms_only_what_came_before_it_and_on_its_connection() -> None:
    replica = Replica("127.0.0.1:1", PLAIN, None)
    look = replica.begin_look()
    answer = asyncio.create_task(replica._wait_for_look(0))
    await asyncio.sleep(0)
    replica.agree(look)
    await asyncio.sleep(0.01)
    assert not answer.done(), "it came while the look was under way"
    replica.agree(replica.begin_look())
    await answer
    answer = asyncio.create_task(replica._wait_for_look(0))
    await asyncio.sleep(0)
    replica._connection += 1
    replica.agree(replica.begin_look())
    with pytest.raises(CallError, match="may have become another"):
        await answer
    await replica.close()
