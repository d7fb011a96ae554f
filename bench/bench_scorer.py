"""Measures throughput and memory of a real scorer process over gRPC on loopback.

    python bench/bench_scorer.py [--items 1000000] [--batch 64] [--json]

Three loads: known verdicts that are only aggregated (as when a run is read again), answers
that a rule reads, and log-likelihoods. The server is a separate process; its memory is
the resident set size from the operating system.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import psutil

from lyncean.rpc import dial, is_serving
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc

ANSWERS = (
    "B",
    "The answer is (C).",
    "**Answer:** D",
    "Looking at the panels, the number of dots grows by one from left to right. Option A breaks this, and so does "
    "option B, since their dots are white. The pattern continues with four black dots, so the answer is C.",
    "I cannot tell from this image.",
)
_SLICES = (pb.Slice(labels=["kind"]), pb.Slice(labels=["kind", "shape"]))
METRICS = (
    pb.MetricSpec(name="accuracy", metric="accuracy", by=_SLICES),
    pb.MetricSpec(name="all", metric="group_all"),
    pb.MetricSpec(name="bias", metric="choice_bias"),
)


@dataclass
class Row:
    """One measured load."""

    load: str
    items: int
    seconds: float
    items_per_second: float
    server_cpu_seconds: float
    rss_start_mib: float
    rss_half_mib: float
    rss_end_mib: float
    rss_peak_mib: float


def known(number: int) -> pb.ScoreRequest:
    """Returns an item with a verdict."""
    item = _item(number)
    item.verdict.outcome, item.verdict.score = "scored", float(number % 4 == 0)
    item.verdict.extracted = "ABCD"[number % 4]
    return item


def answer(number: int) -> pb.ScoreRequest:
    """Returns an item with a text for a rule."""
    item = _item(number)
    item.rule, item.text = "choice", ANSWERS[number % len(ANSWERS)]
    return item


def likelihoods(number: int) -> pb.ScoreRequest:
    """Returns an item with log-likelihoods."""
    item = _item(number)
    item.rule = "likelihood"
    for option in range(4):
        item.scores.add(logprob=-1.0 - (option + number) % 4, token_count=3)
    return item


def _item(number: int) -> pb.ScoreRequest:
    return pb.ScoreRequest(
        key=f"bench/{number}",
        targets=["A"],
        options=["one thing", "another", "a third", "the last"],
        labels={"kind": f"kind {number % 6}", "shape": f"shape {number % 5}"},
        group=str(number // 5),
    )


async def measure(load: str, make: Callable[[int], pb.ScoreRequest], items: int, batch: int) -> Row:
    """Starts a server, sends it all items, and samples its memory meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        command = [sys.executable, "-m", "scorer", "serve", "--port", "0", "--port-file", str(port_file)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not port_file.exists():
                await asyncio.sleep(0.05)
            async with dial(f"127.0.0.1:{port_file.read_text().strip()}") as channel:
                while not await is_serving(channel, "lyncean.scorer.v1.ScorerService"):
                    await asyncio.sleep(0.05)
                return await _drive(channel, psutil.Process(process.pid), load, make, items, batch)
        finally:
            process.terminate()
            process.wait()


async def _drive(
    channel: object, server: psutil.Process, load: str, make: Callable[[int], pb.ScoreRequest], items: int, batch: int
) -> Row:
    stub = scorer_pb2_grpc.ScorerServiceStub(channel)
    await _send(stub, known, 100, batch)  # imports at first use are not part of the load
    memory: list[float] = []

    def sample() -> float:
        return float(server.memory_info().rss) / 2**20

    memory.append(sample())
    cpu, start = server.cpu_times(), time.perf_counter()
    await _send(stub, make, items, batch, memory, sample)
    seconds = time.perf_counter() - start
    spent = server.cpu_times()
    return Row(
        load,
        items,
        round(seconds, 2),
        round(items / seconds),
        round(spent.user + spent.system - cpu.user - cpu.system, 2),
        *(round(value, 1) for value in (*memory, _peak(server))),
    )


def _peak(server: psutil.Process) -> float:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return float(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024


async def _send(
    stub: scorer_pb2_grpc.ScorerServiceStub,
    make: Callable[[int], pb.ScoreRequest],
    items: int,
    batch: int,
    memory: list[float] | None = None,
    sample: Callable[[], float] = float,
) -> None:
    async def messages() -> AsyncIterator[pb.ScorerServiceScoreRequest]:
        for start in range(0, items, batch):
            if memory is not None and len(memory) == 1 and start + batch > items // 2:
                memory.append(sample())
            numbers = range(start, min(start + batch, items))
            yield pb.ScorerServiceScoreRequest(items=[make(n) for n in numbers], metrics=METRICS if start == 0 else ())
        if memory is not None:
            memory.append(sample())

    summary = None
    async for response in stub.Score(messages()):
        summary = response.summary if response.HasField("summary") else summary
    assert summary is not None
    assert summary.counts.planned == items


@click.command()
@click.option(
    "--items",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(10),
    help="Verdicts to sum up; a tenth as many are read.",
)
@click.option("--batch", default=64, show_default=True, help="Items a message.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def main(items: int, batch: int, as_json: bool) -> None:
    """Measure a scorer on this machine."""
    if not as_json:
        click.echo(f"{os.cpu_count()} CPUs, {batch} items a message; client and server share them")
    for load, make, number in (
        ("known verdicts", known, items),
        ("rule choice", answer, items // 10),
        ("rule likelihood", likelihoods, items // 10),
    ):
        row = asyncio.run(measure(load, make, number, batch))
        click.echo(json.dumps(asdict(row)) if as_json else "  ".join(f"{k}={v}" for k, v in asdict(row).items()))


if __name__ == "__main__":
    main()
