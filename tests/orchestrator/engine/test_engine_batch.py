"""Calls that go out together: how they are cut, what comes back, and runs over servers that do it."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2
from helpers.engine_cluster import Cluster, Server
from hypothesis import given, strategies as st

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, Overloaded, status_proto
from orchestrator.engine.batch import MOST_BYTES, answers_of, bundles
from orchestrator.engine.wire import Request

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
