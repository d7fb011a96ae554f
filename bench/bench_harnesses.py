"""Compares whole commands with other harnesses: `python bench/bench_harnesses.py [--rows N] [--rounds N]`.

Each harness whose interpreter a variable names (rivals.py) answers the same rows by its own command line, from the
start of its interpreter to its exit, and once more as its core alone, in a process that is warm. All take turns, one
round after the other. Processor seconds are those of the command and of all that it starts; those of the null servers
stand beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bench_pipeline
import rivals

OURS = "lyncean"
Runs = dict[str, list[dict[str, float]]]


def main() -> None:
    """Prints one JSON object per kind of image."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="2000,500", help="Rows of each kind of image.")
    parser.add_argument("--kinds", default="tiny,big")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0, help="Seconds between rounds.")
    parser.add_argument("--ways", default="", help="Only these, for example lyncean,lmms-eval:http.")
    parser.add_argument("--folder", default=".", help="Where files are written.")
    flags, _ = parser.parse_known_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    rivals.check()
    Path(flags.folder).mkdir(parents=True, exist_ok=True)
    only = set(filter(None, flags.ways.split(",")))
    for kind, rows in zip(flags.kinds.split(","), map(int, flags.rows.split(",")), strict=False):
        with tempfile.TemporaryDirectory(prefix=".bench-", dir=flags.folder) as folder:
            print(json.dumps(measure(kind, rows, flags, Path(folder).resolve(), only)), flush=True)


def measure(kind: str, rows: int, flags: argparse.Namespace, folder: Path, only: set[str]) -> dict[str, Any]:
    """Returns medians and ranges of all harnesses over the rounds."""
    data = folder / "data.parquet"
    bench_pipeline.in_child(
        {"what": "data", "data": {"parquet": str(data), "saved": str(folder / "saved")}, "kind": kind, "rows": rows}
    )
    shutil.rmtree(folder / "saved")
    commands: Runs = defaultdict(list)
    core: Runs = defaultdict(list)
    with (
        bench_pipeline.server(folder, "ours") as model,
        bench_pipeline.server(folder, "http") as http,
        bench_pipeline.scorer(folder) as scorer,
    ):
        for number in range(flags.rounds):
            if number:
                time.sleep(flags.pause)
            if not only or OURS in only:
                run = folder / "run"
                commands[OURS].append(command(ours(data, model, run), folder))
                shutil.rmtree(run)
                job = {"what": "eval", "data": str(data), "model": model, "scorer": scorer, "run": str(run)}
                before = bench_pipeline.servers_used()
                result = bench_pipeline.in_child(job)
                servers = bench_pipeline.servers_used() - before
                core[OURS].append({"wall": result["figures"], "cpu": result["cpu"], "servers": servers})
                shutil.rmtree(run)
            for rival in rivals.RIVALS:
                for way in rival.ways if rival.python else ():
                    name = f"{rival.name}:{way}"
                    if only and name not in only:
                        continue
                    job = {"data": str(data), "rows": rows, "way": way, "port": http}
                    paths = folder / "whole", folder / "core"
                    commands[name].append(command(rival.command({**job, "whole": True, "folder": paths[0]}), folder))
                    core[name].append(of_core(rival.command({**job, "whole": False, "folder": paths[1]}), folder))
                    for path in paths:
                        shutil.rmtree(path)
            print(
                f"round {number + 1} of {flags.rounds}, {kind}: {json.dumps(last(commands))}",
                file=sys.stderr,
                flush=True,
            )
    return {
        "kind": kind,
        "rows": rows,
        "rounds": flags.rounds,
        "ended": datetime.now(UTC).isoformat(timespec="minutes"),
        "whole": compared(commands),
        "core": compared(core),
        "left_out": left_out(),
        "versions": {rival.name: rival.version() for rival in rivals.RIVALS if rival.python},
    }


def last(runs: Runs) -> dict[str, float]:
    """Returns the processor seconds of each harness's last run."""
    return {name: round(measurements[-1]["cpu"], 2) for name, measurements in runs.items()}


def ours(data: Path, port: int, run: Path) -> list[str]:
    """Returns our command, which starts its own scorer, logs everything and writes the report."""
    arguments = [
        "-m",
        "orchestrator",
        "eval",
        "--task",
        "vstar_bench",
        "--data",
        str(data),
        "--run",
        str(run),
        "--quiet",
    ]
    return [sys.executable, *arguments, "--endpoint", f"127.0.0.1:{port}"]


def command(arguments: Sequence[str], folder: Path) -> dict[str, float]:
    """Runs a command; returns its seconds, its processor seconds and those of the null servers meanwhile."""
    servers, before, started = bench_pipeline.servers_used(), ended_used(), time.perf_counter()
    run(arguments, folder)
    wall = time.perf_counter() - started
    return {"wall": wall, "cpu": ended_used() - before, "servers": bench_pipeline.servers_used() - servers}


def of_core(arguments: Sequence[str], folder: Path) -> dict[str, float]:
    """Runs a core, which measures its own time."""
    servers = bench_pipeline.servers_used()
    result = json.loads(run(arguments, folder).splitlines()[-1])
    return {"wall": result["seconds"], "cpu": result["cpu"], "servers": bench_pipeline.servers_used() - servers}


def run(arguments: Sequence[str], folder: Path) -> str:
    """Runs a command and returns its output."""
    environment = os.environ if arguments[0] == sys.executable else rivals.environment(folder)
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)[:300]} failed:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return done.stdout


def ended_used() -> float:
    """Returns the processor seconds of all descendants that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compared(runs: Runs) -> dict[str, Any]:
    """Returns each harness's medians and ranges, and its ratios to ours by round."""
    results = {}
    for name, mine in runs.items():
        spreads = {field: spread([one[field] for one in mine]) for field in mine[0]}
        if name != OURS and OURS in runs:
            for field in ("wall", "cpu"):
                pairs = zip(mine, runs[OURS], strict=True)
                spreads[f"times_ours_{field}"] = spread([one[field] / our[field] for one, our in pairs])
        results[name] = spreads
    return results


def spread(values: Sequence[float]) -> list[float]:
    """Returns the median, the lowest and the highest."""
    return [round(value, 2) for value in (statistics.median(values), min(values), max(values))]


def left_out() -> list[str]:
    """Returns a line for each harness that was not measured."""
    return [
        f"{rival.name}: not measured, {rival.variable} is not set; it takes the path of a Python that has it"
        for rival in rivals.RIVALS
        if not rival.python
    ]


if __name__ == "__main__":
    main()
