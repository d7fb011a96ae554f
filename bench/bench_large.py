"""Measures work on a large run's folder: `python bench/bench_large.py [--rows N] [--folder DIR] [--steps ...]`.

Makes the folder of a run in which all but a few samples are answered, then measures each step
in a separate process: the resume up to its next call on the wire and on to the results, the report, a comparison,
scoring again and a merge; `live` sends as many texts to a live server. CPU and peak memory are those of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pipeline_data
import pipeline_null
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from bench_pipeline import running, scorer

from orchestrator.run_folder.key_table import digests, shard_of
from orchestrator.run_folder.lines import sealed
from orchestrator.run_folder.planned_rows import STRIDE, sealed_stride

LEFT = 100
"""Samples that are not answered yet."""

_FIRST = 200
LOGS = ("responses.jsonl", "verdicts.jsonl")
STEPS = "resume,report,compare,score,merge"


class Noting(pipeline_null.Null):
    """The null model, which creates a file at its first call."""

    def __init__(self, note: Path) -> None:
        self._note = note

    async def Generate(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answers "B"."""
        if not self._note.exists():
            self._note.touch()
        return pipeline_null.ANSWER


def main() -> None:
    """Measures and prints one JSON object per step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--of", type=int, default=1, metavar="N", help="The run is the first of N shards of the rows.")
    parser.add_argument("--kind", default="dot", help="dot (70 bytes an image), tiny or big")
    parser.add_argument("--folder", type=Path, help="Keep what is made here, and take what is there.")
    parser.add_argument("--steps", default=STEPS)
    parser.add_argument("--serve", nargs=2, type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.serve:
        asyncio.run(pipeline_null.main("ours", flags.serve[0], Noting(flags.serve[1])))
        return
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as temporary:
        folder = (flags.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for step in ["make", *flags.steps.split(",")]:
            result = STEP[step](folder, flags)
            if result:
                print(json.dumps({"step": step, "rows": flags.rows, **result}), flush=True)


def make(folder: Path, flags: Any) -> dict[str, Any]:
    """Makes data and run folder: a few real answers, and the rest copied from their pattern."""
    run = folder / "run"
    if run.exists():
        return {}
    data = folder / "data"
    if not data.exists():
        pipeline_data.make(data, flags.kind, flags.rows)
    with servers(folder, flags) as ask:
        subprocess.run([*ask(run), "--max-tokens-total", str(601 * _FIRST)], check=False, stderr=subprocess.DEVNULL)

    def in_shard(row: int) -> bool:
        return flags.of == 1 or shard_of(f"vstar_bench/{row}", flags.of) == 0

    manifest = json.loads((run / "manifest.json").read_text())
    for name in LOGS:
        lines = (run / name).read_bytes().splitlines()
        keys = {orjson.loads(line)["key"] for line in lines}
        pattern = orjson.loads(lines[-1])
        key = pattern["key"].encode()
        # Without its checksum: `sealed` appends a new one.
        line = orjson.dumps({name: value for name, value in pattern.items() if name != "crc32"})
        with (run / name).open("ab") as file:
            for row in range(flags.rows - LEFT):
                if in_shard(row) and f"vstar_bench/{row}" not in keys:
                    file.write(sealed(line.replace(key, b"vstar_bench/%d" % row)) + b"\n")
        shutil.copyfile(run / name, folder / name)
    name = (run / ".planned").read_bytes()[:32]
    with (run / ".planned").open("wb") as file:
        file.write(name)
        for first in range(0, flags.rows, STRIDE):
            rows = range(first, min(first + STRIDE, flags.rows))
            keys = digests(b"vstar_bench/%d" % row for row in rows if in_shard(row)).tolist()
            file.write(sealed_stride((0, first, len(rows)), [(low, high, True) for low, high in keys]))
    sizes = {
        "log_mb": round(sum((run / name).stat().st_size for name in LOGS) / 1e6),
        "data_mb": round(sum(file.stat().st_size for file in data.iterdir()) / 1e6),
    }
    return {**sizes, "run": manifest["created"]}


def resume(folder: Path, flags: Any) -> dict[str, Any]:
    """Runs the command again: to the next call on the wire, and to the end."""
    with servers(folder, flags) as ask:
        (folder / "asked").unlink(missing_ok=True)
        for name in LOGS:
            shutil.copyfile(folder / name, folder / "run" / name)
        started = time.perf_counter()
        process = psutil.Popen(ask(folder / "run"))
        wait_for_call(folder, process)
        result = {"seconds_to_call": round(time.perf_counter() - started, 2)} | usage(process, "to_call")
        return result | finished(process, started)


def wait_for_call(folder: Path, process: psutil.Popen) -> None:
    """Waits until a command's first call is on the wire; exits if the command ends without one."""
    while not (folder / "asked").exists():
        if process.status() == "zombie":
            raise SystemExit(f"{process.args} ended without a call")
        time.sleep(0.01)


def report(folder: Path, flags: Any) -> dict[str, Any]:
    """Writes the page again."""
    result = command("report", folder / "run")
    return result | {"page_mb": round((folder / "run" / "report.html").stat().st_size / 1e6)}


def compare(folder: Path, flags: Any) -> dict[str, Any]:
    """Compares the run with itself under another name."""
    other = folder / "other"
    if not other.exists():
        other.symlink_to("run")
    return command("compare", folder / "run", other)


def live(folder: Path, flags: Any) -> dict[str, Any]:
    """Sends all text questions to the null model."""
    run, task = folder / "live", folder / "texts.yaml"
    shutil.rmtree(run, ignore_errors=True)
    texts = {
        "id": pa.array(range(flags.rows)),
        "question": [f"What comes after {row} in the row of numbers that are drawn?" for row in range(flags.rows)],
        "answer": ["ABCD"[row % 4] for row in range(flags.rows)],
    } | {letter: [f"option {letter}"] * flags.rows for letter in "ABCD"}
    pq.write_table(pa.table(texts), folder / "texts.parquet", row_group_size=1 << 16)
    del texts
    task.write_text("data: texts.parquet\nid: id\nquestion: question\noptions: [A, B, C, D]\nanswer: answer\n")
    port = folder / "port-model"
    serve = [sys.executable, __file__, "--serve", str(port), str(folder / "asked")]
    with running(serve, port) as model, scorer(folder) as scoring:
        addresses = ["--endpoint", f"127.0.0.1:{model}", "--scorer", f"127.0.0.1:{scoring}"]
        servers = psutil.Process().children()
        result = command("eval", "--task", task, "--run", run, *addresses, "--quiet")
        for name, server in zip(("model", "scorer"), servers, strict=True):
            result |= usage(server, name)
    return result


def score(folder: Path, flags: Any) -> dict[str, Any]:
    """Scores every answer again."""
    with scorer(folder) as port:
        return command("score", folder / "run", "--scorer", f"127.0.0.1:{port}")


def merge(folder: Path, flags: Any) -> dict[str, Any]:
    """Splits the run into two artificial shards and merges them."""
    run, shards = folder / "run", [folder / f"shard{index}" for index in range(2)]
    manifest = json.loads((run / "manifest.json").read_text())
    for index, shard in enumerate(shards):
        if shard.exists():
            break
        shard.mkdir()
        planned = 0
        for name in LOGS:
            planned = 0
            with (run / name).open("rb") as source, (shard / name).open("wb") as target:
                for line in source:
                    if shard_of(line[8 : line.index(b'"', 8)].decode(), 2) == index:
                        target.write(line)
                        planned += 1
        part = {**manifest, "shard": {"index": index, "of": 2}, "planned": {"vstar_bench": planned}}
        (shard / "manifest.json").write_text(json.dumps(part))
        (shard / "results.json").write_text("{}")  # a merge takes complete shards; it reads only the logs of them
    merged = folder / "merged"
    subprocess.run(["rm", "-rf", merged], check=True)
    with scorer(folder) as port:
        return command("merge", *shards, "--run", merged, "--scorer", f"127.0.0.1:{port}")


def command(*arguments: Any) -> dict[str, Any]:
    """Runs a subcommand to its end."""
    started = time.perf_counter()
    process = psutil.Popen([sys.executable, "-m", "orchestrator", *map(str, arguments)], stdout=subprocess.DEVNULL)
    return finished(process, started)


def finished(process: psutil.Popen, started: float) -> dict[str, Any]:
    """Waits for a process and returns its time and peak memory."""
    peak = 0
    # The peak from wait4 is never less than the memory of this process, so it is read from /proc.
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        peak = max(peak, peak_mb(process))
        time.sleep(0.02)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{process.args} ended with {os.waitstatus_to_exitcode(status)}")
    cpu = used.ru_utime + used.ru_stime
    took = time.perf_counter() - started
    return {"seconds": round(took, 2), "cpu": round(cpu, 2), "peak_mb": peak}


def usage(process: psutil.Popen, suffix: str) -> dict[str, Any]:
    """Returns a running process's CPU seconds and peak memory so far."""
    times = process.cpu_times()
    return {f"cpu_{suffix}": round(times.user + times.system, 2), f"peak_mb_{suffix}": peak_mb(process)}


def peak_mb(process: psutil.Popen) -> int:
    """Returns a process's peak memory so far, 0 once it has ended."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next((round(int(line.split()[1]) * 1024 / 1e6) for line in status.splitlines() if "VmHWM" in line), 0)


@contextmanager
def servers(folder: Path, flags: Any) -> Any:
    """Runs model and scorer, and yields a function that returns the command of a run on them."""
    port = folder / "port-model"
    serve = [sys.executable, __file__, "--serve", str(port), str(folder / "asked")]
    with running(serve, port) as model, scorer(folder) as scoring:

        def ask(run: Path) -> list[str]:
            arguments = ["eval", "--task", "vstar_bench", "--data", str(folder / "data"), "--run", str(run)]
            addresses = ["--endpoint", f"127.0.0.1:{model}", "--scorer", f"127.0.0.1:{scoring}"]
            shard = ["--shard", f"0/{flags.of}"] if flags.of > 1 else []
            return [sys.executable, "-m", "orchestrator", *arguments, *addresses, *shard, "--quiet"]

        yield ask


STEP = {
    "make": make,
    "resume": resume,
    "report": report,
    "compare": compare,
    "live": live,
    "score": score,
    "merge": merge,
}

if __name__ == "__main__":
    main()
