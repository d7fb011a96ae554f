"""The simulator against real runs: `python bench/simulate_check.py`.

Replicas that answer after a fixed delay, all in one process beside orchestrator and scorer. What
one orchestrator takes per call on this machine comes from a run of its own whose replicas answer at
once, call by call, what a call takes beside the delay from a run with one replica, everything else
from the flags.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import bench_pipeline
import pipeline_data
from pipeline_null import Null
from simulate import System, simulate

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from lyncean.rpc import Server, ServerConfig

SLOTS = 4


class Slow(Null):
    """Answers after a while, four calls at a time; at once, it takes no Batch, so that a call's whole cost is seen."""

    def __init__(self, delay: float, waiting: int) -> None:
        self.delay = delay
        self.waiting = waiting
        self.slots = asyncio.Semaphore(SLOTS)

    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        """Says what it is."""
        info: model.GetModelInfoResponse = await super().GetModelInfo(request, context)
        return model.GetModelInfoResponse(
            model_name=info.model_name,
            model_revision=info.model_revision,
            boot_id=info.boot_id,
            capabilities=[one for one in info.capabilities if self.delay or one != model.CAPABILITY_BATCH],
            max_concurrency=SLOTS,
            max_waiting=self.waiting,
        )

    async def Generate(self, request: Any, context: Any) -> model.GenerateResponse:  # noqa: N802
        """Answers "B"."""
        async with self.slots:
            await asyncio.sleep(self.delay)
        return await super().Generate(request, context)


async def serve(delays: Sequence[float], ports_file: Path, ready: Path, waiting: int) -> None:
    """Runs a replica for each delay in this process until it is killed; writes their ports, one a line."""
    servers: list[Server] = []
    for delay in delays:
        server = Server(
            ServerConfig(port_file=ready if len(servers) == len(delays) - 1 else None),
            "lyncean.model.v1.ModelService",
            partial(model_pb2_grpc.add_ModelServiceServicer_to_server, Slow(delay, waiting)),
        )
        servers.append(server)
        ports_file.write_text("".join(f"{one.port}\n" for one in servers[:-1]))
        await server.start()
        await server.set_serving()
    await servers[0].run_until_signal()


def evaluate(job: dict[str, Any]) -> dict[str, Any]:
    """One real run; rate from the log's own times, so that start and imports are left out."""
    from datetime import datetime

    import orjson
    from rich.console import Console

    from orchestrator.run import evaluate as run_eval
    from orchestrator.run.plan import make
    from orchestrator.run.request import RunRequest

    request = RunRequest(
        ["vstar_bench"],
        data=job["data"],
        limit=job["rows"],
        endpoint=[f"127.0.0.1:{port}" for port in job["ports"]],
        scorer=f"127.0.0.1:{job['scorer']}",
    )
    plan = make(request)
    before = bench_pipeline.used()
    work = run_eval.evaluate(plan, Console(quiet=True), run=Path(job["run"]))
    run = asyncio.run(work)
    cpu = bench_pipeline.used() - before
    lines = [orjson.loads(line) for line in (run / "responses.jsonl").read_bytes().splitlines()]
    began = [datetime.fromisoformat(line["started"]).timestamp() for line in lines]
    ended = [start + line["seconds"] for start, line in zip(began, lines, strict=True)]
    held = sorted(line["seconds"] for line in lines)
    ports = [f"127.0.0.1:{port}" for port in job["ports"]]
    return {
        "rate": len(lines) / (max(ended) - min(began)),
        "cpu_ms": 1000 * cpu / len(lines),
        "median_call": held[len(held) // 2],
        "calls": [count for _, count in sorted(Counter(ports.index(line["replica"]) for line in lines).items())],
    }


def measured(delays: Sequence[float], rows: int, scorer: int, folder: Path, waiting: int = 0) -> dict[str, Any]:
    """Starts a replica for each delay, makes one run in a separate process, and returns its measurements."""
    path = Path(tempfile.mkdtemp(dir=folder))
    ports, ready, run = (path / name for name in ("ports", "ready", "run"))
    command = [sys.executable, __file__, "--serve", ",".join(map(str, delays)), str(ports), str(ready), str(waiting)]
    with bench_pipeline.running(command, ready) as last:
        job = {"ports": [*map(int, ports.read_text().split()), last], "rows": rows, "scorer": scorer}
        job |= {"data": str(folder / "data.parquet"), "run": str(run)}
        child = [sys.executable, __file__, "--child", json.dumps(job)]
        out = subprocess.run(child, stdout=subprocess.PIPE, text=True, check=True).stdout
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


def main() -> None:
    """Prints one JSON object per run: the measurement, the simulation, and the error."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicas", default="1,2,4,8,128,1000")
    parser.add_argument("--delay", type=float, default=0.1)
    parser.add_argument("--seconds", type=float, default=4.0, help="Of each run, did replicas alone count.")
    parser.add_argument("--most", type=int, default=8000, help="Samples of a run at most.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.serve:
        delays, ports, ready, waiting = flags.serve
        asyncio.run(serve([float(delay) for delay in delays.split(",")], Path(ports), Path(ready), int(waiting)))
        return
    if flags.child:
        print(json.dumps(evaluate(json.loads(flags.child))))
        return
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as name:
        folder = Path(name).resolve()
        pipeline_data.make(folder / "data.parquet", "tiny", flags.most)
        with bench_pipeline.scorer(folder) as scorer:
            busy = measured([0.0] * 8, 2000, scorer, folder)
            alone = measured([flags.delay], round(flags.seconds * SLOTS / flags.delay), scorer, folder)
            print(json.dumps({"answers at once": busy, "one replica": alone}), flush=True)
            for replicas in map(int, flags.replicas.split(",")):
                rows = min(flags.most, round(flags.seconds * replicas * SLOTS / flags.delay))
                real = measured([flags.delay] * replicas, rows, scorer, folder)
                system = System(
                    samples=rows,
                    replicas=replicas,
                    slots=SLOTS,
                    service=flags.delay,
                    latency=alone["median_call"] - flags.delay,
                    cpu=1 / busy["rate"],
                    image_bytes=12_000,
                )
                simulated = simulate(system).rate
                line = {"replicas": replicas, "samples": rows, **real, "simulated": simulated}
                print(json.dumps(line | {"error": simulated / real["rate"] - 1}), flush=True)


if __name__ == "__main__":
    main()
