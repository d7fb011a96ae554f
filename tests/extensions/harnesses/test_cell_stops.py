"""A scorer whose task code or judge blocks stops when it is asked to, and its cells with it."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from helpers.engine_cluster import Server, wait_for
from helpers.toy_harness import ToyHarness, write

from lyncean.rpc import dial
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc
from lyncean_harnesses.library.values import encode

BLOCKS = """
import time
from openai import OpenAI

def results(doc, answers):
    while answers[0] == 'sleep':
        time.sleep(3600)
    while answers[0] == 'compute':
        pass
    if answers[0] == 'ask':
        client = OpenAI(base_url='http://127.0.0.1:1/v1', api_key='none', max_retries=0)
        while True:
            try:
                client.chat.completions.create(model='any', messages=[{'role': 'user', 'content': 'well?'}])
            except Exception:
                time.sleep(3600)
    return {'right': 1.0}
"""
WAITS = 60.0
"""Seconds after which a scorer that is to stop has failed to; what blocks in it is left alone for twice as long."""


def item(answer: str) -> pb.ScoreRequest:
    request = pb.ScoreRequest(key=f"lm-eval:blocks/{answer}", rule="harness_task", text=answer)
    request.params.update({"task": "lm-eval:blocks", "doc": encode({"answer": "3"}), "index": 0})
    return request


async def ask(address: str, answer: str, started: asyncio.Event) -> str:
    """Has an answer scored after one that needs no time; returns how the call ended."""

    async def requests() -> AsyncIterator[pb.ScorerServiceScoreRequest]:
        yield pb.ScorerServiceScoreRequest(items=[item("first")])
        await started.wait()
        yield pb.ScorerServiceScoreRequest(items=[item(answer)])

    async with dial(address) as channel:
        stream = scorer_pb2_grpc.ScorerServiceStub(channel).Score(requests())
        try:
            async for reply in stream:
                if reply.verdicts:  # the first reply has none
                    assert [verdict.score for verdict in reply.verdicts] == [1.0], reply
                    started.set()
        except grpc.aio.AioRpcError as error:
            return str(error.code())
    return "answered"


@pytest.mark.parametrize(
    ("answer", "number"), [("sleep", signal.SIGINT), ("compute", signal.SIGTERM), ("ask", signal.SIGINT)]
)
async def test_a_scorer_stops_while_a_task_blocks(answer: str, number: int, tmp_path: Path) -> None:
    toy = ToyHarness(tmp_path)
    task = (toy.tasks / "compares.yaml").read_text().replace("compares", "blocks").replace("plain", "blocks")
    write(toy.tasks, {"blocks.yaml": task, "blocks.py": BLOCKS})
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a judge that takes questions and says nothing
        judge = f"openai:any@http://127.0.0.1:{silent.getsockname()[1]}/v1"
        variables = [f"{name}={toy.environment[name]}" for name in ("PYTHONPATH", "HF_HOME", "XDG_CACHE_HOME")]
        flags = ["--foreign-tasks", "--include-path", str(toy.tasks), "--judge", judge, "--grace", "0.5"]
        server = Server(tmp_path / "scorer", ["env", *variables, sys.executable, "-m", "scorer", "serve", *flags])
        server.start()
        try:
            started = asyncio.Event()
            asking = asyncio.create_task(ask(server.address, answer, started))
            await asyncio.wait_for(started.wait(), WAITS)
            assert cells(toy)
            await asyncio.sleep(0.5)  # what blocks may have begun, or may not: both are to end
            server.signal(number)
            await asyncio.wait_for(asking, WAITS)
            assert server.process
            await asyncio.to_thread(server.process.wait, WAITS)
            assert server.process.returncode == 0, (tmp_path / "scorer" / "output").read_text()
            await asyncio.to_thread(wait_for, lambda: not cells(toy), WAITS)
        finally:
            server.kill()


def cells(toy: ToyHarness) -> list[str]:
    """Returns the processes of cells that import from the stand-in's folder."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text()
        except OSError:
            continue
        pids += [path.parent.name] if "lyncean.cell.child" in command and str(toy.site) in command else []
    return pids
