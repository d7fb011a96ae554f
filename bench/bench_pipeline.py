"""The whole pipeline against its floor: `python bench/bench_pipeline.py [--rows N] [--runs N]`.

Three real processes (orchestrator, null model server, scorer), everything logged, the report
written; beside it, in the same run, the bare gRPC unary ceiling with the same requests, as gRPC comes
and where both ends keep freed memory as ours do; the floor of the work, a loop that reads each image,
hashes it, stores it, sends it and does nothing else; and lmms-eval on the same rows where LMMS_EVAL_PYTHON
names an interpreter that has it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pipeline_data
import psutil
import rivals

HERE = Path(__file__).parent
IN_FLIGHT = 32
SERVERS = {"bare": "bare", "kept": "kept", "stored": "kept"}
"""The server that each loop of bare gRPC speaks to."""


def main() -> None:
    """Measures and prints one JSON object a kind of image."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kinds", default="tiny,big")
    parser.add_argument("--folder", default=".", help="where files are written: some disks are slow to create them")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.child:
        child(json.loads(flags.child))
        return
    Path(flags.folder).mkdir(parents=True, exist_ok=True)
    for kind in flags.kinds.split(","):
        with tempfile.TemporaryDirectory(prefix=".bench-", dir=flags.folder) as folder:
            print(json.dumps(measure(kind, flags.rows, flags.runs, Path(folder).resolve())), flush=True)


def measure(kind: str, rows: int, runs: int, folder: Path) -> dict[str, Any]:
    """Returns the medians over `runs`, pipeline and ceiling in turn."""
    data = folder / "data.parquet"
    # In a process of its own: a child's peak memory counts what its parent held when it was started.
    size = in_child({"what": "data", "data": str(data), "kind": kind, "rows": rows})["image_bytes"]
    pipelines = []
    floors: dict[str, list[float]] = {floor: [] for floor in SERVERS}
    with (
        server(folder, "ours") as model,
        server(folder, "http") as http,
        scorer(folder) as scoring,
    ):
        rival = rivals.LmmsEval(data, rows, http, folder)
        for run in range(runs):
            for floor, rates in floors.items():
                # A server of its own each time: whether glibc gives a message's memory back is settled by luck in
                # each process, and with large images makes half as much again.
                with server(folder, SERVERS[floor]) as port:
                    job = {"what": floor, "data": str(data), "port": port, "rows": rows}
                    rates.append(in_child(job)["per_second"])
            job = {
                "what": "eval",
                "data": str(data),
                "model": model,
                "scorer": scoring,
                "run": str(folder / f"run{run}"),
            }
            before = servers_used()
            pipelines.append(in_child(job) | {"servers": servers_used() - before})
            rival.round()

    def median(field: str) -> float:
        return statistics.median(one[field] for one in pipelines)

    ceilings = {floor: statistics.median(rates) for floor, rates in floors.items()}
    rate = rows / median("figures")
    return {
        "kind": kind,
        "rows": rows,
        "image_bytes": round(size),
        "grpc_unary_per_second": round(ceilings["bare"]),
        "grpc_unary_memory_kept_per_second": round(ceilings["kept"]),
        "read_stored_sent_per_second": round(ceilings["stored"]),
        "to_figures_per_second": round(rate),
        "to_report_per_second": round(rows / median("seconds")),
        "share_of_ceiling": round(rate / ceilings["bare"], 2),
        "share_of_ceiling_memory_kept": round(rate / ceilings["kept"], 2),
        "share_of_read_stored_sent": round(rate / ceilings["stored"], 2),
        "orchestrator_cpu_ms_per_sample": round(1000 * median("cpu") / rows, 3),
        "servers_cpu_ms_per_sample": round(1000 * median("servers") / rows, 3),
        "orchestrator_rss_mb": round(median("rss") / 1e6),
        "rss_with_report_mb": round(median("rss_with_report") / 1e6),
        "whole_process_seconds": round(median("wall"), 2),
        "lmms_eval": rival.results(median("figures"), median("seconds")),
    }


def in_child(job: dict[str, Any]) -> dict[str, Any]:
    """Runs one measurement in a process of its own and returns what it printed."""
    started = time.perf_counter()
    process = psutil.Popen([sys.executable, __file__, "--child", json.dumps(job)], stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{job['what']} failed")
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result | {"wall": time.perf_counter() - started}


def child(job: dict[str, Any]) -> None:
    """One measurement: seconds of the work itself, without interpreter start and imports."""
    if job["what"] == "data":
        print(json.dumps({"image_bytes": pipeline_data.make(Path(job["data"]), job["kind"], job["rows"])}))
        return
    result = {"per_second": job["rows"] / asyncio.run(floor(job))} if job["what"] in SERVERS else evaluate(job)
    print(json.dumps(result))


def evaluate(job: dict[str, Any]) -> dict[str, float]:
    """The product's own way from data to report; what it took to the figures, and with the report."""
    from rich.console import Console

    from orchestrator import report, run_eval, run_plan
    from orchestrator.benchmarks import vstar
    from orchestrator.data import parquet
    from orchestrator.engine import Budget, Endpoint, Options
    from orchestrator.report import terminal

    for module in (report, vstar, parquet, terminal):
        assert module, "imported before the clock starts"
    before, started = used(), time.perf_counter()
    plan = run_plan.make(["vstar_bench"], data=[job["data"]])
    where = run_eval.Where(endpoints=[Endpoint("127.0.0.1", job["model"])], scorer=Endpoint("127.0.0.1", job["scorer"]))
    console = Console(file=sys.stderr, quiet=True)
    work = run_eval.evaluate(plan, where, Options(), Budget(), run=Path(job["run"]), console=console)
    run = asyncio.run(work)
    figures = {"figures": time.perf_counter() - started, "cpu": used() - before, "rss": peak()}
    run_eval.finish(run, console)
    return {**figures, "seconds": time.perf_counter() - started, "rss_with_report": peak()}


def used() -> float:
    """CPU seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def servers_used() -> float:
    """CPU seconds that the servers of this process have used."""
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children())


def peak() -> int:
    """Peak memory of this process, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def floor(job: dict[str, Any]) -> float:
    """Seconds of the same requests through grpc.aio and nothing else, the second time; answers are thrown away.

    "bare" and "kept" have them built before; "stored" reads each image, hashes it and stores it as it goes.
    """
    import grpc

    from lynceus.model.v1 import model_pb2 as model
    from lynceus.rpc import keep_freed_memory

    if job["what"] != "bare":
        keep_freed_memory()
    built = None if job["what"] == "stored" else [model.GenerateRequest.FromString(data) for data in requests(job)]
    serialized = model.GenerateRequest.SerializeToString if built else None
    async with grpc.aio.insecure_channel(f"127.0.0.1:{job['port']}") as channel:
        generate = channel.unary_unary(
            "/lynceus.model.v1.ModelService/Generate", serialized, model.GenerateResponse.FromString
        )

        async def worker(left: Iterator[Any]) -> None:
            for request in left:
                await generate(request)

        async def all_of_them() -> float:
            with tempfile.TemporaryDirectory(dir=Path(job["data"]).parent) as images:
                started, left = time.perf_counter(), iter(built or requests(job, Path(images)))
                await asyncio.gather(*(worker(left) for _ in range(IN_FLIGHT)))
                return time.perf_counter() - started

        await all_of_them()
        return await all_of_them()


def requests(job: dict[str, Any], images: Path | None = None) -> Iterator[bytes]:
    """The serialized requests, one after the other, their images stored under their hashes if a folder is given."""
    import hashlib

    import pyarrow.parquet as pq

    from orchestrator.engine.wire import request_of
    from orchestrator.samples import Call, image_part, text_part, user

    file = pq.ParquetFile(job["data"], buffer_size=1 << 20, pre_buffer=False)
    for batch in file.iter_batches(batch_size=4, columns=["image", "text"], use_threads=False):
        for image, text in zip(batch["image"], batch["text"], strict=True):
            data = image.as_py()["bytes"]
            if images:
                (images / hashlib.sha256(data).hexdigest()).write_bytes(data)
            yield request_of(Call((user(image_part(data), text_part(text.as_py())),))).data


@contextmanager
def server(folder: Path, kind: str) -> Iterator[int]:
    """Runs a null model server."""
    file = folder / f"port-{kind}"
    with running([sys.executable, str(HERE / "pipeline_null.py"), kind, str(file)], file) as port:
        yield port


@contextmanager
def scorer(folder: Path) -> Iterator[int]:
    """Runs our scorer."""
    file = folder / "port-scorer"
    with running([sys.executable, "-m", "scorer", "serve", "--port", "0", "--port-file", str(file)], file) as port:
        yield port


@contextmanager
def running(command: list[str], port_file: Path) -> Iterator[int]:
    """Runs a server until the block ends."""
    port_file.unlink(missing_ok=True)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not port_file.exists() or not port_file.read_text():
            time.sleep(0.02)
        yield int(port_file.read_text())
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
