"""Compares the whole pipeline with its floor: `python bench/bench_pipeline.py [--rows N] [--runs N]`.

Three real processes (orchestrator, null model server, scorer), everything logged, the report
written; beside it, in the same run, the bare gRPC unary ceiling with the same requests, as gRPC comes
and where both ends keep freed memory as ours do; and the floor of the work, a loop that reads each image,
hashes it, stores it, sends it and does nothing else. `bench_harnesses.py` has other harnesses on the same rows.
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
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pipeline_data
import psutil

HERE = Path(__file__).parent
IN_FLIGHT = 32
FORMS = {"parquet": "data.parquet", "saved": "data"}
"""Sources of the data: a parquet file, and a folder of `datasets`, the form in which it caches tables of a hub."""


def main() -> None:
    """Measures and prints one JSON object per kind of image."""
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
    """Returns the medians over `runs`, of the pipeline from each form of the data and of the loops in turn."""
    data = {form: str(folder / name) for form, name in FORMS.items()}
    # In a separate process: a child's peak memory includes the memory of its parent when it was started.
    size = in_child({"what": "data", "data": data, "kind": kind, "rows": rows})["image_bytes"]
    loops: dict[str, list[dict[str, float]]] = defaultdict(list)
    pipelines: dict[str, list[dict[str, float]]] = defaultdict(list)

    def loop(loop_kind: str, form: str) -> dict[str, float]:
        # A new server each time: it is chance in each process whether glibc returns a message's memory, which with
        # large images makes a difference of one half.
        with server(folder, "bare" if loop_kind == "bare" else "kept") as port:
            return in_child({"what": loop_kind, "data": data[form], "port": port, "rows": rows})

    with (
        server(folder, "ours") as model,
        scorer(folder) as scoring,
    ):
        for run in range(runs):
            for loop_kind in ("bare", "kept"):
                loops[loop_kind].append(loop(loop_kind, "parquet"))
            for form in FORMS:
                loops[form].append(loop("stored", form))
                where = {"model": model, "scorer": scoring, "run": str(folder / f"run-{form}-{run}")}
                before = servers_used()
                one = in_child({"what": "eval", "data": data[form], **where})
                pipelines[form].append(one | {"servers": servers_used() - before})
    rates = {loop_kind: statistics.median(one["per_second"] for one in ran) for loop_kind, ran in loops.items()}
    costs = {loop_kind: round(statistics.median(one["cpu_ms"] for one in ran), 3) for loop_kind, ran in loops.items()}
    ours = {
        form: {name: statistics.median(one[name] for one in ran) for name in ran[0]} for form, ran in pipelines.items()
    }
    return {
        "kind": kind,
        "rows": rows,
        "image_bytes": round(size),
        "grpc_unary_per_second": round(rates["bare"]),
        "grpc_unary_memory_kept_per_second": round(rates["kept"]),
        "loops_cpu_ms_per_call": costs,
        **{form: figures(one, rows, rates["bare"], rates["kept"], rates[form]) for form, one in ours.items()},
    }


def figures(ours: dict[str, float], rows: int, bare: float, kept: float, stored: float) -> dict[str, float]:
    """Returns a pipeline's medians a sample, beside the loops' calls a second."""
    rate = rows / ours["figures"]
    return {
        "to_figures_per_second": round(rate),
        "to_report_per_second": round(rows / ours["seconds"]),
        "read_stored_sent_per_second": round(stored),
        "share_of_ceiling": round(rate / bare, 2),
        "share_of_ceiling_memory_kept": round(rate / kept, 2),
        "share_of_read_stored_sent": round(rate / stored, 2),
        "orchestrator_cpu_ms_per_sample": round(1000 * ours["cpu"] / rows, 3),
        "servers_cpu_ms_per_sample": round(1000 * ours["servers"] / rows, 3),
        "orchestrator_rss_mb": round(ours["rss"] / 1e6),
        "rss_with_report_mb": round(ours["rss_with_report"] / 1e6),
        "whole_process_seconds": round(ours["wall"], 2),
    }


def in_child(job: dict[str, Any]) -> dict[str, Any]:
    """Runs one measurement in a separate process and returns its printed result."""
    started = time.perf_counter()
    process = psutil.Popen([sys.executable, __file__, "--child", json.dumps(job)], stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{job['what']} failed")
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result | {"wall": time.perf_counter() - started}


def child(job: dict[str, Any]) -> None:
    """Makes one measurement: seconds of the work alone, without interpreter start and imports."""
    if job["what"] == "data":
        parquet, saved = Path(job["data"]["parquet"]), Path(job["data"]["saved"])
        print(json.dumps({"image_bytes": pipeline_data.make(parquet, job["kind"], job["rows"])}))
        pipeline_data.save(parquet, saved)
        return
    print(json.dumps(evaluate(job) if job["what"] == "eval" else asyncio.run(floor(job))))


def evaluate(job: dict[str, Any]) -> dict[str, float]:
    """Runs the product from data to report; returns its costs up to the results, and with the report."""
    from rich.console import Console

    from orchestrator import report
    from orchestrator.benchmarks.vstar import benchmark as vstar
    from orchestrator.data import arrow, parquet
    from orchestrator.report import Reports, terminal
    from orchestrator.run import evaluate as run_eval
    from orchestrator.run.plan import make
    from orchestrator.run.request import RunRequest

    for module in (report, vstar, arrow, parquet, terminal):
        assert module, "imported before the clock starts"
    if Path(job["data"]).is_dir():
        import datasets

        assert datasets, "takes 70 MB and is imported for its own folders only"
    before, started = used(), time.perf_counter()
    endpoint, scorer = (f"127.0.0.1:{job[name]}" for name in ("model", "scorer"))
    plan = make(RunRequest(["vstar_bench"], data=job["data"], endpoint=endpoint, scorer=scorer))
    console = Console(file=sys.stderr, quiet=True)
    work = run_eval.evaluate(plan, console, run=Path(job["run"]))
    run = asyncio.run(work)
    figures = {"figures": time.perf_counter() - started, "cpu": used() - before, "rss": peak()}
    Reports().finish(run, console)
    return {**figures, "seconds": time.perf_counter() - started, "rss_with_report": peak()}


def used() -> float:
    """Returns the CPU seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def servers_used() -> float:
    """Returns the CPU seconds that the servers of this process have used."""
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children())


def peak() -> int:
    """Returns the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def floor(job: dict[str, Any]) -> dict[str, float]:
    """Measures the second pass of the same requests through grpc.aio alone; answers are discarded.

    "bare" and "kept" build the requests before; "stored" reads, hashes and stores each image on the way.
    """
    import grpc

    from lyncean.model.v1 import model_pb2 as model
    from lyncean.rpc import keep_freed_memory

    if job["what"] != "bare":
        keep_freed_memory()
    built = None if job["what"] == "stored" else [model.GenerateRequest.FromString(data) for data in requests(job)]
    serialized = model.GenerateRequest.SerializeToString if built else None
    async with grpc.aio.insecure_channel(f"127.0.0.1:{job['port']}") as channel:
        generate = channel.unary_unary(
            "/lyncean.model.v1.ModelService/Generate", serialized, model.GenerateResponse.FromString
        )

        async def worker(left: Iterator[Any]) -> None:
            for request in left:
                await generate(request)

        async def all_of_them() -> dict[str, float]:
            with tempfile.TemporaryDirectory(dir=Path(job["data"]).parent) as folder:
                before, started, left = used(), time.perf_counter(), iter(built or requests(job, folder))
                await asyncio.gather(*(worker(left) for _ in range(IN_FLIGHT)))
                seconds = time.perf_counter() - started
                return {"per_second": job["rows"] / seconds, "cpu_ms": 1000 * (used() - before) / job["rows"]}

        await all_of_them()
        return await all_of_them()


def requests(job: dict[str, Any], folder: str = "") -> Iterator[bytes]:
    """Yields the serialized requests; with a folder their images are stored as in a run."""
    from orchestrator.benchmarks.vstar.benchmark import TABLE
    from orchestrator.data.images import row_image
    from orchestrator.data.opening import open_rows
    from orchestrator.engine.wire import request_of
    from orchestrator.run_folder.image_store import ImageStore
    from orchestrator.samples import Call, image_part, text_part, user

    images = ImageStore(Path(folder)) if folder else None
    for row in open_rows(job["data"], TABLE):
        data = row_image(row)
        if images:
            images.put(data)
        yield request_of(Call((user(image_part(data), text_part(row["text"])),))).data


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
