"""SIGUSR1: a server loads its model anew, under another identity and without a new start."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Cluster, Server as Process, wait_for
from helpers.model_process import process, request, serving

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import CallError, call, dial

SERVER = """
import pathlib, sys, time
from model_server.kit import Model, main

HERE = pathlib.Path(sys.argv[0])

class Swapped(Model):
    name = "swapped"
    def load(self):
        self.revision = HERE.with_suffix(".weights").read_text()
    def generate(self, request):
        HERE.with_suffix(".asked").touch()
        while not HERE.with_suffix(".answer").exists():
            time.sleep(0.01)
        return self.revision

main(Swapped)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "swapped.py"
    path.write_text(SERVER)
    path.with_suffix(".weights").write_text("first")
    return path


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Any]:
    async with dial(f"127.0.0.1:{port}") as channel:
        await serving(channel)
        yield model_grpc.ModelServiceStub(channel)


async def described(stub: Any, revision: str) -> model.GetModelInfoResponse:
    """Waits until a server says that it has these weights; "loading" until it says that it has none yet."""
    while True:
        info = model.GetModelInfoResponse()
        try:
            info = await call(stub.GetModelInfo, model.GetModelInfoRequest(), timeout=300)
        except CallError as error:
            if error.reason != "model_loading":
                raise
            info.model_revision = "loading"
        if info.model_revision == revision:
            return info
        await asyncio.sleep(0.01)


async def test_a_call_in_flight_is_answered_by_the_model_that_it_was_sent_to(script: Path) -> None:
    with process(str(script), port_file=script.parent / "port") as (started, port):
        async with connected(port) as stub:
            before = await described(stub, "first")
            running = asyncio.ensure_future(call(stub.Generate, request("x"), timeout=300))
            while not script.with_suffix(".asked").exists():
                await asyncio.sleep(0.01)
            script.with_suffix(".weights").write_text("second")
            started.send_signal(signal.SIGUSR1)
            await described(stub, "loading")
            script.with_suffix(".answer").touch()
            answer = await running
            assert (answer.parts[0].text, answer.served_by.model_revision) == ("first", "first")
            assert answer.served_by.boot_id == before.boot_id
            after = await described(stub, "second")
            assert after.boot_id != before.boot_id
            answer = await call(stub.Generate, request("x"), timeout=300)
            assert (answer.parts[0].text, answer.served_by.boot_id) == ("second", after.boot_id)
            started.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(started.wait, 60) == 0


async def test_weights_that_cannot_be_loaded_end_the_server(script: Path) -> None:
    with process(str(script), port_file=script.parent / "port") as (started, port):
        async with connected(port):
            script.with_suffix(".weights").unlink()
            started.send_signal(signal.SIGUSR1)
            assert await asyncio.to_thread(started.wait, 60) != 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    instance = Cluster(tmp_path)
    yield instance
    instance.close()


def test_a_run_in_progress_refuses_the_new_model(script: Path, cluster: Cluster, shared_scorer: Process) -> None:
    with process(str(script), port_file=script.parent / "port") as (started, port):
        script.with_suffix(".answer").touch()
        arguments = ["eval", "--task", "toy", "--synthetic", "--endpoint", f"127.0.0.1:{port}", "--run", "run"]
        arguments += ["--scorer", shared_scorer.address, "--concurrency", "1", "--patience", "1"]
        running = cluster.start(*arguments)
        wait_for(lambda: cluster.answered() >= 2)
        script.with_suffix(".weights").write_text("second")
        started.send_signal(signal.SIGUSR1)
        output = cluster.ended(running, 3)
        assert "model_revision is 'second', not 'first'" in output
        revisions = {line["served_by"]["model_revision"] for line in cluster.lines("run") if "served_by" in line}
        assert revisions <= {"first"}
