"""The counters of the scorer, as Prometheus reads them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import urllib.request

import grpc
import pytest
from helpers.scorer_asking import likelihood, passed

from lyncean.rpc import ServerConfig, dial
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc
from scorer.judges.base import JudgePrompt, Reply
from scorer.rules import rules
from scorer.scoring import Scorer
from scorer.service import server
from scorer.telemetry import Telemetry


class SilentJudge:
    """Never replies, so that a stream with a judged item ends only by being cancelled."""

    identity = "silent"

    async def ask(self, prompt: JudgePrompt) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        pass


async def test_items_and_streams_are_counted_and_scraped() -> None:
    telemetry = Telemetry()
    serving = server(ServerConfig(grace=0.5), Scorer(rules(), SilentJudge()), telemetry=telemetry)
    port = await serving.start()

    def ended(code: str) -> float:
        return telemetry.registry.get_sample_value("lyncean_scorer_streams_ended_total", {"code": code}) or 0.0

    async with dial(f"127.0.0.1:{port}") as channel:
        stub = scorer_pb2_grpc.ScorerServiceStub(channel)
        call = stub.Score()
        items = [likelihood("a", 0, 0), likelihood("b", 1, 0), passed("c", "failed")]
        await call.write(pb.ScorerServiceScoreRequest(items=items))
        await call.read()
        assert telemetry.registry.get_sample_value("lyncean_scorer_streams") == 1
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        bad = stub.Score()
        await bad.write(pb.ScorerServiceScoreRequest(items=[pb.ScoreRequest(key="k", rule="nope", text="x")]))
        with pytest.raises(grpc.aio.AioRpcError):
            await bad.read()
        gone = stub.Score()
        judged = pb.ScoreRequest(key="b", rule="judge_voila", text="two any walking", targets=["two any walking"])
        judged.params["step"] = 3
        await gone.write(pb.ScorerServiceScoreRequest(items=[likelihood("a", 0, 0), judged]))
        await gone.read()
        gone.cancel()
        async with asyncio.timeout(300):  # the server hears of a stream's end after its client
            while ended("OK") + ended("INVALID_ARGUMENT") + ended("CANCELLED") < 3:
                await asyncio.sleep(0.01)
    await serving.stop()
    http = telemetry.listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{http}/metrics"
    page = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=300).read().decode())
    for line in (
        'lyncean_scorer_items_total{outcome="scored",rule="likelihood"} 3.0',
        'lyncean_scorer_items_total{outcome="failed",rule=""} 1.0',
        'lyncean_scorer_streams_ended_total{code="OK"} 1.0',
        'lyncean_scorer_streams_ended_total{code="INVALID_ARGUMENT"} 1.0',
        'lyncean_scorer_streams_ended_total{code="CANCELLED"} 1.0',
        "lyncean_scorer_streams 0.0",
    ):
        assert line in page.splitlines(), page


def test_a_metrics_port_that_is_taken_is_a_usage_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [sys.executable, "-m", "scorer", "serve", "--port", "0"]
        command += ["--metrics-port", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("Error: cannot listen on metrics port")
