"""Measures the share of time for which a model works: `python bench/bench_idle.py [--seconds N] [--delays MS,MS]`.

Models sleep for 50 ms per call, one call at a time, or for 1 s per batch of 32. The Python kit serves them through a
proxy that delays every byte both ways, so a round trip takes twice the delay. A model is busy while it runs a call or a
batch; its share is of the time from its second call to its last. Start is the time between its first call, until whose
answer the engine queues no other, and its second. Full is the mean share of a batch that is filled, without each
model's first batch, which starts before all requests have arrived, and its last, for which too few are left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import bench_pipeline
import pipeline_data

from lyncean.model.v1 import model_pb2_grpc
from lyncean.rpc import Server, ServerConfig
from model_server.core import Core
from model_server.kit import Model, Output, Request
from model_server.kit.backend import KitBackend
from model_server.metrics import Metrics
from model_server.service import NAME, ModelServicer
from model_server.tracing import Tracing

REPLICAS = (1, 4, 16)


class Single(Model):
    """Answers one call at a time."""

    name = "sleeps"
    max_concurrency = 1
    seconds = 0.05
    calls = 1

    def __init__(self) -> None:
        self.worked: list[tuple[float, float, int]] = []

    def generate(self, request: Request) -> str | Output:
        """Sleeps."""
        return self.work(1)[0]

    def work(self, calls: int) -> list[str]:
        """Sleeps and records start and end."""
        started = time.perf_counter()
        time.sleep(self.seconds)
        self.worked.append((started, time.perf_counter(), calls))
        return ["B"] * calls

    @property
    def busy(self) -> float:
        """The share of time for which it worked."""
        calls = self.worked[1:] or self.worked
        return sum(end - start for start, end, _ in calls) / (calls[-1][1] - calls[0][0])

    @property
    def start(self) -> float:
        """Seconds from the end of the first call to the second."""
        return self.worked[1][0] - self.worked[0][1] if self.worked[1:] else 0.0

    @property
    def full(self) -> float:
        """The share of a batch that is filled, without first and last batch if there are others."""
        return statistics.mean(calls for *_, calls in self.worked[1:-1] or self.worked) / self.calls


class Batched(Single):
    """Answers up to 32 calls at a time."""

    max_batch = 32
    seconds = 1.0
    calls = 32

    def generate_batch(self, requests: Sequence[Request]) -> Sequence[str | Output]:
        """Sleeps."""
        return self.work(len(requests))


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Forwards bytes after a delay in seconds."""
    held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    clock = asyncio.get_running_loop().time

    async def pass_on() -> None:
        while (entry := await held.get())[1]:
            await asyncio.sleep(entry[0] - clock())
            writer.write(entry[1])
        writer.close()

    passing = asyncio.create_task(pass_on())
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            held.put_nowait((clock() + delay, data))
    held.put_nowait((0.0, b""))
    await passing


@contextlib.asynccontextmanager
async def served(model: Single, delay: float) -> AsyncIterator[int]:
    """Serves a model through the proxy and yields the proxy's port."""
    backend = KitBackend(model, Metrics())
    core = Core(backend)
    backend.load()
    core.ready()
    servicer = ModelServicer(core, Metrics(), Tracing.from_environment())
    server = Server(ServerConfig(), NAME, lambda to: model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, to))
    await server.start()
    await server.set_serving()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(relay(reader, upstream[1], delay), relay(upstream[0], writer, delay))

    proxy = await asyncio.start_server(connected, "127.0.0.1", 0)
    yield proxy.sockets[0].getsockname()[1]
    proxy.close()
    await server.stop()
    await backend.close()


async def worked(kind: type[Single], replicas: int, delay: float, rows: int, data: Path, scorer: int) -> list[Single]:
    """Returns the models of all replicas after one run."""
    models = [kind() for _ in range(replicas)]
    async with contextlib.AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(served(model, delay)) for model in models]
        arguments = ["eval", "--task", "vstar_bench", "--data", str(data), "--limit", str(rows), "--quiet"]
        arguments += ["--run", tempfile.mkdtemp(dir=data.parent), "--scorer", f"127.0.0.1:{scorer}"]
        arguments += ["--endpoint", ",".join(f"127.0.0.1:{port}" for port in ports)]
        command = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "orchestrator", *arguments, stdout=subprocess.DEVNULL
        )
        if await command.wait():
            raise SystemExit("orchestrator eval failed")
    return models


def main() -> None:
    """Prints one JSON object per setting."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0, help="Of each run, were models never idle.")
    parser.add_argument("--delays", default="1,20,40", help="One way, ms.")
    flags, _ = parser.parse_known_args()
    delays = [float(word) / 1000 for word in flags.delays.split(",")]
    most = round(max(flags.seconds * max(REPLICAS) * kind.calls / kind.seconds for kind in (Single, Batched)))
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as name:
        folder = Path(name).resolve()
        data = folder / "data.parquet"
        pipeline_data.make(data, "dot", most)
        with bench_pipeline.scorer(folder) as scorer:
            for kind in (Single, Batched):
                for delay in delays:
                    for replicas in REPLICAS:
                        rows = round(flags.seconds * replicas * kind.calls / kind.seconds)
                        models = asyncio.run(worked(kind, replicas, delay, rows, data, scorer))
                        shares = [model.busy for model in models]
                        line = {
                            "model": f"{kind.seconds} s for {kind.calls}",
                            "replicas": replicas,
                            "round_trip_ms": round(2000 * delay),
                            "busy": round(statistics.mean(shares), 3),
                            "lowest": round(min(shares), 3),
                            "start_ms": round(1000 * statistics.mean(model.start for model in models)),
                            "full": round(statistics.mean(model.full for model in models), 3),
                        }
                        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
