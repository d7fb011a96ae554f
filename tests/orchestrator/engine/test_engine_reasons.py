"""Waits for model servers have a reason and an end, by real gRPC."""

from __future__ import annotations

import asyncio
import io
import json
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from rich.console import Console
from simulation.world import plan_of

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, Overloaded, StatusError, Unavailable
from lyncean.rpc.errors import trailing_metadata
from orchestrator.engine import streak
from orchestrator.engine.streak import LEAST_TRIES, Streak
from orchestrator.errors import IncompleteError
from orchestrator.run import evaluate as evaluate_module, progress
from orchestrator.run.evaluate import evaluate
from orchestrator.run_folder import manifest
from orchestrator.run_folder.errors import RunLogError

INFO = model.GetModelInfoResponse(
    model_name="m",
    model_revision="1",
    boot_id="b",
    capabilities=[model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT],
    max_concurrency=4,
)
ANSWER = model.GenerateResponse(
    parts=[model.Part(text="A")],
    finish_reason=model.FINISH_REASON_END_OF_SEQUENCE,
    served_by=model.ServedBy(model_revision="1", boot_id="b"),
)
BROKEN = Unavailable("endpoint_failed", "the endpoint says 500: worker died")


class Failing(grpc.GenericRpcHandler):
    """Answers at once, but for the rows that have a failure."""

    def __init__(self, failures: dict[int | None, StatusError]) -> None:
        self.failures, self.calls = failures, Counter[int]()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def reply(request: bytes, context: Any) -> bytes:
            if details.method.endswith("GetModelInfo"):
                return INFO.SerializeToString()
            row = int(model.GenerateRequest.FromString(request).messages[-1].parts[0].text.split()[0])
            self.calls[row] += 1
            if failure := self.failures.get(row) or self.failures.get(None):
                await context.abort(failure.code, str(failure), trailing_metadata(failure))
            return ANSWER.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(reply)


@asynccontextmanager
async def serving(handler: Failing) -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([handler])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_what_fails_alike_while_others_are_answered_is_failed_with_the_reason(
    shared_scorer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streak, "HOPELESS_SECONDS", 0.5)
    handler = Failing(dict.fromkeys((0, 1, 8, 9, 16), BROKEN))
    async with serving(handler) as address:
        plan = plan_of("generate", 60, 1, address, shared_scorer.address)
        with pytest.raises(IncompleteError, match="5 items failed"):
            await evaluate(plan, Console(quiet=True), run=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "responses.jsonl").read_text().splitlines()]
    failed = [line for line in lines if line.get("outcome") == "failed"]
    assert len(failed) == 5
    for line in failed:
        assert LEAST_TRIES <= line["attempts"] < 46
        message = f"the endpoint says 500: worker died ({line['attempts']} times in "
        assert line["error"]["message"].startswith(message)


async def test_the_live_line_says_until_when_and_why(
    shared_scorer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.1)
    busy = Overloaded("endpoint_busy", "the endpoint says 429: quota of the day", retry_after=3600.0)
    for failure, pattern in (
        (
            busy,
            r"waiting for ADDRESS until \d\d:\d\d:\d\d: RESOURCE_EXHAUSTED: the endpoint says 429: quota of the day",
        ),
        (BROKEN, r"requests? failed and will be sent again: UNAVAILABLE: the endpoint says 500: worker died"),
    ):
        out = io.StringIO()
        async with serving(Failing({None: failure})) as address:
            plan = plan_of("generate", 6, 1, address, shared_scorer.address)
            run = evaluate(plan, Console(file=out, width=400), run=tmp_path / failure.reason)
            going = asyncio.create_task(run)
            async with asyncio.timeout(60):
                while not _matches(pattern.replace("ADDRESS", address), out.getvalue()):
                    await asyncio.sleep(0.05)
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)


async def test_a_disk_that_hangs_as_results_are_written_ends_the_run_with_a_sentence(
    shared_scorer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate_module, "LEAST_DISK_SECONDS", 0.5)
    hangs, real = threading.Event(), manifest.write_file

    def write_file(path: Path, data: bytes) -> None:
        if path.name == "results.json":
            hangs.wait(60)
        real(path, data)

    monkeypatch.setattr(manifest, "write_file", write_file)
    async with serving(Failing({})) as address:
        plan = plan_of("generate", 6, 1, address, shared_scorer.address)
        plan = replace(plan, request=replace(plan.request, patience=0.5))
        with pytest.raises(RunLogError, match="did not answer for"):
            await evaluate(plan, Console(quiet=True), run=tmp_path / "run")
    assert not hangs.is_set(), "nobody waited for the write"
    hangs.set()


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def test_a_call_is_not_given_up_where_nobody_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streak, "HOPELESS_SECONDS", 0.0)
    error = CallError(grpc.StatusCode.UNAVAILABLE, "endpoint_failed", "500")
    alone, answered = Streak(), Streak()
    assert not any(alone.hopeless(error, answered=0.0) for _ in range(50))
    assert [answered.hopeless(error, answered=1e18) for _ in range(LEAST_TRIES)] == [False] * (LEAST_TRIES - 1) + [True]
    changed = CallError(grpc.StatusCode.UNAVAILABLE, "identity_changed", "another")
    assert not any(answered.hopeless(changed, answered=1e18) for _ in range(50))
    full = CallError(grpc.StatusCode.RESOURCE_EXHAUSTED, "endpoint_busy", "429")
    assert not any(answered.hopeless(full, answered=1e18) for _ in range(50))
