"""Measures the waits around a run: `python bench/bench_start.py [--runs N] [--rows N]`.

The unit is processor seconds of all processes of a command, which a busy machine changes little: for every `--help`,
from the command to its first call on the wire, for a whole run of one item, and from the last answer to the command's
end. Each is printed with its ceiling; a value above it is marked and does not fail.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import grpc
import pipeline_data
import pipeline_null
import psutil

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from model_server.cli import main as model_server
from orchestrator.cli import lyncean, main as orchestrator
from scorer.cli import main as scorer

BIN = Path(sys.executable).parent
COMMANDS: dict[str, click.Command] = {
    "orchestrator": orchestrator,
    "scorer": scorer,
    "model-server": model_server,
    "lyncean": lyncean,
}
HELP, FIRST_CALL, ONE_ITEM, END = 0.15, 0.5, 1.0, 0.3
"""Ceilings, processor seconds."""
SYNTHETIC = ["--task", "vstar_bench", "--synthetic", "--limit", "1"]
YARDSTICK = "import asyncio, grpc.aio, numpy"
"""Baseline of any command; processor time grows on a busy machine because processes share cores."""
PAUSE = 0.05
"""Seconds of each of many calls, 32 at a time."""
TREE_MB = 200
"""Ceiling of peak memory, MB."""


@dataclass
class Watched(pipeline_null.Null):
    """The null model of a command; records the command's processor time at its calls.

    Attributes:
        last: Number of the last call.
        command: The command's process.
        first_call: Processor seconds of the command's processes at the first call.
        last_call: The same at the last.
    """

    last: int
    command: psutil.Process | None = None
    first_call: float = 0.0
    last_call: float = 0.0
    ended: float = 0.0
    calls: int = 0

    async def Generate(self, request: Any, context: Any) -> model.GenerateResponse:  # noqa: N802
        """Answers like the null model, with a delay if there are many calls, as from a real model."""
        if self.last > 1:
            await asyncio.sleep(PAUSE)
        self.calls += 1
        if self.calls == 1:
            self.first_call = used(self.command)
        if self.calls == self.last:
            self.last_call, self.ended = used(self.command), time.perf_counter()
        return pipeline_null.ANSWER


@dataclass
class Peaks(threading.Thread):
    """Peak memory of each process of a command, by its module or name, bytes."""

    command: psutil.Process
    by_program: dict[str, int] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Prepares the thread."""
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        """Samples memory until the command is over."""
        while not self.over.wait(0.02):
            for process in tree(self.command):
                with contextlib.suppress(psutil.Error, OSError, StopIteration):
                    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
                    peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
                    arguments = process.cmdline()
                    name = arguments[arguments.index("-m") + 1] if "-m" in arguments else "orchestrator"
                    self.by_program[name] = max(peak, self.by_program.get(name, 0))


def tree(command: psutil.Process | None) -> list[psutil.Process]:
    """Returns the running processes of a command."""
    with contextlib.suppress(psutil.Error):
        if command is not None:
            return [command, *command.children(recursive=True)]
    return []


def used(command: psutil.Process | None) -> float:
    """Returns the processor seconds that a command and its processes have used so far."""
    total = 0.0
    for process in tree(command):
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def children_used() -> float:
    """Returns the processor seconds of all descendants that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def ran(arguments: list[str]) -> tuple[float, float]:
    """Returns the processor seconds and the wall time of a command."""
    before, started = children_used(), time.perf_counter()
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.DEVNULL)
    if await process.wait():
        raise SystemExit(f"{' '.join(arguments)}: exit code {process.returncode}")
    return children_used() - before, time.perf_counter() - started


async def evaluated(arguments: list[str], rows: int) -> dict[str, float]:
    """Returns the costs of `orchestrator eval` with a null model.

    Args:
        arguments: Its arguments without the endpoint, which is added unless they name a model.
        rows: Number of its calls.
    """
    null = Watched(rows)
    server = grpc.aio.server()
    model_pb2_grpc.add_ModelServiceServicer_to_server(null, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    where = [] if "--model" in arguments else ["--endpoint", f"127.0.0.1:{port}"]
    before = children_used()
    process = await asyncio.create_subprocess_exec(BIN / "orchestrator", "eval", *arguments, *where, "--quiet")
    null.command = psutil.Process(process.pid)
    peaks = Peaks(null.command)
    peaks.start()
    code = await process.wait()
    total, ended = children_used() - before, time.perf_counter()
    peaks.over.set()
    peaks.join()
    await server.stop(None)
    if code:
        raise SystemExit(f"orchestrator eval {' '.join(arguments)}: exit code {code}")
    return {
        "total": total,
        "first_call": null.first_call,
        "end": total - null.last_call,
        "end_by_the_clock": ended - null.ended,
        "tree_mb": sum(peaks.by_program.values()) / 1e6,
    }


def helps(name: str, command: click.Command, above: click.Context | None = None) -> list[list[str]]:
    """Returns the names of every command and subcommand, as lists of words."""
    context = click.Context(command, above, name)
    names = context.command_path.split()
    below = command.list_commands(context) if isinstance(command, click.Group) else []
    assert isinstance(command, click.Group) or not below
    return [names, *(path for sub in below for path in helps(sub, command.get_command(context, sub), context))]


def report(label: str, values: list[float], ceiling: float | None = None, unit: str = "s") -> None:
    """Prints the median of values and their range, beside its ceiling."""
    digits = 2 if unit == "s" else 0
    middle = statistics.median(values)
    line = f"{label:62} {middle:7.{digits}f} {unit:2} ({min(values):.{digits}f} to {max(values):.{digits}f})"
    if ceiling is not None:
        line += f", ceiling {ceiling:g}" + (": ABOVE" if middle > ceiling else "")
    print(line, flush=True)


async def measured(rows: int, runs: int) -> None:
    """Measures and prints everything."""
    yardstick = [(await ran([sys.executable, "-c", YARDSTICK]))[0] for _ in range(2 * runs)]
    report(f"yardstick: python -c '{YARDSTICK}'", yardstick)
    took: dict[str, list[float]] = {}
    for arguments in [names for name, command in COMMANDS.items() for names in helps(name, command)]:
        took[" ".join(arguments)] = [
            (await ran([str(BIN / arguments[0]), *arguments[1:], "--help"]))[0] for _ in range(runs)
        ]
    for name in COMMANDS:
        slowest = max(
            (line for line in took if line.split()[0] == name), key=lambda line: statistics.median(took[line])
        )
        report(f"{slowest} --help, the slowest of {name}", took[slowest], HELP)
    with tempfile.TemporaryDirectory(prefix=".bench-") as name:
        folder = Path(name).resolve()
        data = folder / "data.parquet"
        pipeline_data.make(data, "tiny", rows)
        task = ["--task", "vstar_bench"]
        kinds = {
            "one item of a Parquet file": ([*task, "--data", str(data), "--limit", "1"], 1),
            "one synthetic item": (SYNTHETIC, 1),
            "one synthetic item, model server started": (
                [*task, "--synthetic", "--limit", "1", "--model", "demo:hash"],
                1,
            ),
            f"{rows:,} items": ([*task, "--data", str(data)], rows),
        }
        for kind, (arguments, calls) in kinds.items():
            costs = [
                await evaluated([*arguments, "--run", str(folder / f"{kind}-{run}")], calls) for run in range(runs)
            ]
            column = {key: [one[key] for one in costs] for key in costs[0]}
            embedded = "--model" in arguments
            if calls == 1:
                report(f"{kind}: the whole command", column["total"], None if embedded else ONE_ITEM)
            if not embedded:
                report(f"{kind}: to the first call", column["first_call"], FIRST_CALL)
                report(f"{kind}: from the last call to the end", column["end"], END)
                report(f"{kind}: the same by the clock", column["end_by_the_clock"])
            report(f"{kind}: all processes", column["tree_mb"], TREE_MB, "MB")


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    flags, _ = parser.parse_known_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    asyncio.run(measured(flags.rows, flags.runs))


if __name__ == "__main__":
    main()
