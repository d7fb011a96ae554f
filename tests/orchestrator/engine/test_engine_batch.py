"""Calls that go out together: how they are cut, what comes back, and runs over servers that do it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2
from helpers.engine_cluster import Cluster, Server
from hypothesis import given, strategies as st
from rich.console import Console
from simulation.world import plan_of

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, Overloaded, status_proto
from lyncean.rpc.errors import NotHeld
from orchestrator.engine.batch import MOST_BYTES, answers_of, bundles
from orchestrator.engine.wire import Request
from orchestrator.run.evaluate import evaluate

ROWS = ("--limit", "120")
REQUESTS = [Request("Generate", ()), Request("Likelihood", ())]


@given(
    st.lists(st.integers(0, 6_000_000), max_size=30), st.integers(1, 16), st.sampled_from([0, 600, 2_000_000, 2**26])
)
def test_bundles(sizes: list[int], most: int, max_request_bytes: int) -> None:
    requests: Any = [SimpleNamespace(size=size) for size in sizes]
    cut = list(bundles(requests, most, max_request_bytes))
    assert [index for run in cut for index in run] == list(range(len(sizes)))
    limit = min(MOST_BYTES, max_request_bytes or MOST_BYTES)
    for run in cut:
        assert 1 <= len(run) <= most
        assert len(run) == 1 or sum(sizes[index] for index in run) <= limit


FULL = [
    model.BatchResult(status=status_proto(Overloaded("queue_full", "full", retry_after=2))),
    model.BatchResult(
        failure=model.BatchFailure(code=8, message="full", reason="queue_full", retry_delay={"seconds": 2})
    ),
]


@pytest.mark.parametrize("full", FULL, ids=["status", "as before"])
def test_answers(full: model.BatchResult) -> None:
    response = model.BatchResponse(
        results=[
            model.BatchResult(index=1, likelihood=model.LikelihoodResponse()),
            full,
            model.BatchResult(index=2, generate=model.GenerateResponse()),
        ]
    )
    (first, score), (second, failure) = answers_of(response, REQUESTS)
    assert (first, score) == (1, model.LikelihoodResponse())
    assert second == 0
    assert isinstance(failure, CallError)
    assert (failure.code, failure.reason, str(failure)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "queue_full", "full")
    assert failure.retry_after == 2


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (model.BatchResult(), "INTERNAL"),
        (model.BatchResult(likelihood=model.LikelihoodResponse()), "INTERNAL"),
        (model.BatchResult(failure=model.BatchFailure()), "INTERNAL"),
        (model.BatchResult(failure=model.BatchFailure(code=99)), "UNKNOWN"),
        (model.BatchResult(status=status_pb2.Status()), "INTERNAL"),
        (model.BatchResult(status=status_pb2.Status(code=99)), "UNKNOWN"),
        (model.BatchResult(status=status_pb2.Status(code=5, details=[{"value": b"no"}])), "NOT_FOUND"),
    ],
)
def test_answers_that_are_none(result: model.BatchResult, code: str) -> None:
    ((index, failure),) = answers_of(model.BatchResponse(results=[result]), REQUESTS)
    assert index == 0
    assert isinstance(failure, CallError)
    assert failure.code.name == code


def batches(server: Server) -> int:
    return (server.folder / "output").read_text().count("Batch of")


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--flaky", "0.1"),
        ("--queue", "3"),
        ("--concurrency", "2"),
        ("--max-connection-age", "0.3", "--delay", "0.02"),
        ("--break-batch", "abort"),
        ("--break-batch", "short"),
        ("--break-batch", "absent"),
    ],
)
def test_results_are_those_of_single_calls(
    cluster: Cluster, shared_scorer: Server, expected: bytes, flags: tuple[str, ...]
) -> None:
    server = cluster.model("--batch", "--concurrency", "16", *flags)
    cluster.eval("run", [server], shared_scorer, *ROWS)
    assert cluster.results("run") == expected
    assert cluster.counts("run")["planned"] == 120
    if flags != ("--concurrency", "2"):
        assert batches(server)
    if not flags:
        assert batches(server) < 60
        assert cluster.calls() == {str(n): 1 for n in range(120)}


def test_what_fails_fails_alone(cluster: Cluster, shared_scorer: Server) -> None:
    flags = ("--too-long", "10", "--broken", "15", "--empty", "7")
    cluster.eval("single", [cluster.model(*flags)], shared_scorer, *ROWS, code=3)
    server = cluster.model("--batch", "--concurrency", "16", *flags)
    cluster.eval("run", [server], shared_scorer, *ROWS, code=3)
    assert batches(server)
    assert cluster.counts("run") == cluster.counts("single")
    assert Counter(line["outcome"] for line in cluster.lines("run", "verdicts.jsonl")) == Counter(
        line["outcome"] for line in cluster.lines("single", "verdicts.jsonl")
    )


def test_a_server_killed_with_batches_in_flight(cluster: Cluster, shared_scorer: Server, expected: bytes) -> None:
    servers = [cluster.model("--batch", "--delay", "0.05", "--concurrency", "8") for _ in range(2)]
    process = cluster.under_way(servers, shared_scorer, *ROWS, answered=20)
    servers[0].kill()
    cluster.ended(process)
    assert cluster.results("run") == expected
    assert batches(servers[0])
    assert batches(servers[1])
    assert len(cluster.lines("run")) == 120


class Forgetting(grpc.GenericRpcHandler):
    """Holds none of a Batch's files, so that each call is made again alone; that of its first call takes long."""

    def __init__(self) -> None:
        self.batched = 0
        self.first: model.GenerateRequest | None = None
        self.goes_on = asyncio.Event()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def info(request: bytes, context: Any) -> bytes:
            claims = [model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT, model.CAPABILITY_BATCH]
            info = model.GetModelInfoResponse(model_name="m", model_revision="1", capabilities=claims, boot_id="b")
            info.max_concurrency = 16
            return info.SerializeToString()

        async def batch(request: bytes, context: Any) -> AsyncIterator[bytes]:
            calls = model.BatchRequest.FromString(request).calls
            self.batched, self.first = max(self.batched, len(calls)), self.first or calls[0].generate
            refusal = status_proto(NotHeld(()))
            results = [model.BatchResult(index=index, status=refusal) for index in range(len(calls))]
            yield model.BatchResponse(results=results).SerializeToString()

        async def generate(request: bytes, context: Any) -> bytes:
            if self.first == model.GenerateRequest.FromString(request):
                await self.goes_on.wait()
            answer = model.GenerateResponse(parts=[model.Part(text="A")])
            answer.finish_reason = model.FINISH_REASON_END_OF_SEQUENCE
            answer.served_by.model_revision, answer.served_by.boot_id = "1", "b"
            return answer.SerializeToString()

        if details.method.endswith("Batch"):
            return grpc.unary_stream_rpc_method_handler(batch)
        return grpc.unary_unary_rpc_method_handler(info if details.method.endswith("GetModelInfo") else generate)


async def test_a_call_that_is_made_again_keeps_no_other_from_the_log(shared_scorer: Server, tmp_path: Path) -> None:
    handler, serving, run = Forgetting(), grpc.aio.server(), tmp_path / "run"
    serving.add_generic_rpc_handlers([handler])
    port = serving.add_insecure_port("127.0.0.1:0")
    await serving.start()
    plan = plan_of("generate", 3, 1, f"127.0.0.1:{port}", shared_scorer.address)
    going = asyncio.create_task(evaluate(plan, Console(quiet=True), run=run))
    async with asyncio.timeout(20):  # the run's own timeout for a call is 30 s
        while not handler.first or (run / "responses.jsonl").read_bytes().count(b"\n") < 2:
            await asyncio.sleep(0.01)
    handler.goes_on.set()
    await going
    await serving.stop(None)
    assert handler.batched == 2
