"""Compares a call in a trajectory with a single answer: `python bench/bench_episodes.py [--episodes N] [--calls N]`.

Orchestrator and null model server as in `bench_pipeline.py`, files sent once, everything logged, no report. The null
model calls a tool until it has made the calls; the tool returns a ready image that is new each time, so that a call
has one new image, like a single answer. Times are processor times of the orchestrator.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pipeline_data
from bench_pipeline import peak, running, used

HERE = Path(__file__).parent


def main() -> None:
    """Measures and prints one JSON object per kind of image."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kinds", default="tiny,big")
    parser.add_argument("--folder", default=".", help="where files are written: some disks are slow to create them")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.child:
        job = json.loads(flags.child)
        print(json.dumps(evaluate(job) if job["what"] == "eval" else data(job)))
        return
    for kind in flags.kinds.split(","):
        with tempfile.TemporaryDirectory(prefix=".bench-", dir=flags.folder) as folder:
            print(json.dumps(measure(kind, flags, Path(folder).resolve())), flush=True)


def measure(kind: str, flags: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Returns the medians over the runs, of single answers and trajectories in turn."""
    # In a separate process: a child's peak memory includes the memory of its parent when it was started.
    in_child({"what": "data", "data": str(folder / "data.parquet"), "kind": kind, "rows": flags.episodes * flags.calls})
    measurements: dict[str, list[dict[str, float]]] = {"single": [], "episode": []}
    for run in range(flags.runs):
        for mode, ran in measurements.items():
            calls = flags.calls if mode == "episode" else 1
            with server(folder, calls) as port:
                job: dict[str, Any] = {
                    "what": "eval",
                    "data": str(folder / "data.parquet"),
                    "port": port,
                    "calls": calls,
                    "kind": kind,
                }
                job |= {"run": str(folder / f"{mode}-{run}"), "rows": flags.episodes * flags.calls // calls}
                ran.append(in_child(job))
    cost = {mode: statistics.median(one["cpu_ms"] for one in ran) for mode, ran in measurements.items()}
    return {
        "kind": kind,
        "calls": flags.calls,
        "episodes": flags.episodes,
        "cpu_ms_per_call": {mode: round(value, 3) for mode, value in cost.items()},
        "ratio": round(cost["episode"] / cost["single"], 2),
        "rss_mb": {mode: round(max(one["rss"] for one in ran) / 1e6) for mode, ran in measurements.items()},
    }


def in_child(job: dict[str, Any]) -> dict[str, float]:
    """Runs one measurement in a separate process and returns its printed result."""
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return result


def data(job: dict[str, Any]) -> dict[str, float]:
    """Writes the rows."""
    return {"image_bytes": pipeline_data.make(Path(job["data"]), job["kind"], job["rows"])}


def evaluate(job: dict[str, Any]) -> dict[str, float]:
    """Runs the tasks to the results; returns processor time of a call, and peak memory."""
    import numpy as np
    from rich.console import Console

    from orchestrator.benchmarks.vstar import benchmark as vstar
    from orchestrator.data import parquet
    from orchestrator.engine.trajectory import Play
    from orchestrator.run import evaluate as run_eval
    from orchestrator.run.plan import make
    from orchestrator.run.request import RunRequest
    from orchestrator.tools.native import Native
    from orchestrator.tools.toolbox import Toolbox

    for module in (vstar, parquet):
        assert module, "imported before the clock starts"
    draw = np.random.default_rng(3)
    image = (
        pipeline_data.jpeg(draw) if job["kind"] == "big" else pipeline_data.png(draw, 8 if job["kind"] == "dot" else 64)
    )
    request = RunRequest(
        ["vstar_bench"], data=job["data"], limit=job["rows"], endpoint=f"127.0.0.1:{job['port']}", max_unparsed=1
    )
    plan = make(request)
    if job["calls"] > 1:
        plan = replace(plan, play=Play(Toolbox(Native(), (Ready(image, count()),), "0" * 64), 64, ("ready",)))
    before = used()
    asyncio.run(run_eval.evaluate(plan, Console(file=sys.stderr, quiet=True), run=Path(job["run"])))
    return {"cpu_ms": 1000 * (used() - before) / (job["rows"] * job["calls"]), "rss": peak()}


@dataclass
class Ready:
    """A tool that takes no time: its image is ready except for a number."""

    image: bytes
    numbers: Iterator[int]

    def describe(self) -> Any:
        """Describes the tool."""
        from lyncean.model.v1 import model_pb2 as model

        return model.Tool(name="ready", input_schema='{"type": "object"}')

    def call(self, arguments: str, pictures: Sequence[Any]) -> Any:
        """Returns the image."""
        from orchestrator.tools.types import Picture, ToolOutput

        data = pipeline_data.numbered(self.image, 10_000_000 + next(self.numbers))
        return ToolOutput((Picture(data, source=0, box=(0, 0, 8, 8)),))


@contextmanager
def server(folder: Path, calls: int) -> Iterator[int]:
    """Runs a null model server whose model makes `calls` calls."""
    file = folder / "port-ours"
    with running([sys.executable, str(HERE / "pipeline_null.py"), "ours", str(file), str(calls)], file) as port:
        yield port


if __name__ == "__main__":
    main()
