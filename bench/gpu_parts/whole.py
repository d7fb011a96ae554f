"""Parts that run whole programs: the two benches, and runs of the orchestrator."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from bench_pipeline import running

from gpu_parts.part import Machine, Passed, Row

_BENCH = Path(__file__).parents[1]
_TASK, _LABEL = "vstar_bench", "LLaVA-1.5"
_PUBLISHED = _BENCH.parent / "orchestrator/published/vstar.json"


class RunError(Exception):
    """Raised when a run of the orchestrator ended without results; the text is its last line on stderr."""


def _kinds(machine: Machine) -> list[list[str]]:
    """Returns the options of a bench for each checkpoint."""
    return [[]] if machine.toy else [[], ["--hybrid"]]


def likelihood(machine: Machine) -> list[Row]:
    """Measures N candidates on both checkpoints, by all methods."""
    rows = []
    for more in _kinds(machine):
        counts = ["2"] if machine.toy else ["4", "10", "50"]
        arguments = ["--candidates", *counts, "--repeats", "1" if machine.toy else "5", *more]
        for figures in _bench("bench_likelihood", machine, *arguments):
            name = f"{'hybrid, ' if more else ''}N={figures['candidates']}"
            rows += [Row(f"{name}, {way}", f"{value:,.1f} ms") for way, value in figures["ms"].items()]
            rows.append(Row(f"{name}, largest difference of a sum", f"{figures['apart']:.2g}"))
    return rows


def generation(machine: Machine) -> list[Row]:
    """Compares batches that rows join and leave with those that end with their last row."""
    rows = []
    for more in _kinds(machine):
        arguments = [
            "--static",
            "--batches",
            "1",
            *(["2"] if machine.toy else ["8", "32"]),
            "--image-tokens",
            "64",
            *more,
        ]
        arguments += (
            ["--samples", "2", "--tokens", "2"] if machine.toy else ["--samples", "96", "--tokens", "256", "--mixed"]
        )
        for figures in _bench("bench_generate", machine, *arguments):
            if "way" in figures:
                name = f"{'hybrid, ' if more else ''}{figures['way']}"
                value = f"{figures['samples_per_second']:.2f} samples/s, {figures['ratio']:.2f} times batch 1"
                rows.append(Row(name, f"{value}, {figures['gpu_gb']:.1f} GB"))
    return rows


def _bench(name: str, machine: Machine, *arguments: str) -> list[dict[str, Any]]:
    """Returns the results of a bench; at toy size it runs in this process, since imports take longer than its work."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        size = ["--width", str(machine.width), "--layers", str(machine.layers), "--dtype", machine.dtype]
        command = [*arguments, *size, "--json", str(file)]
        if machine.toy:
            before, sys.argv = sys.argv, [name, *command]
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    importlib.import_module(name).main()
            finally:
                sys.argv = before
        else:
            subprocess.run([sys.executable, str(_BENCH / f"{name}.py"), *command], check=True)
        figures: list[dict[str, Any]] = json.loads(file.read_text())
        return figures


def busy(machine: Machine) -> list[Row]:
    """Measures the share of time for which the device works while a run asks the server."""
    rows = 8 if machine.toy else 400
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port_file = folder / "port"
        arguments = ["--backend", "transformers", "--model", str(machine.folder / "llava"), "--dtype", machine.dtype]
        arguments += ["--max-batch", "32"]
        command = [
            sys.executable,
            "-m",
            "model_server",
            "serve",
            *arguments,
            "--port",
            "0",
            "--port-file",
            str(port_file),
        ]
        with running(command, port_file) as port:
            # The answers of random weights are unparsed.
            options = ["--endpoint", f"127.0.0.1:{port}", "--synthetic", "--max-unparsed", "1"]
            options += ["--generation", f"max_output_tokens={4 if machine.toy else 64}"]
            if not machine.toy:
                _run(folder / "first", *options, "--limit", "2")  # loads the checkpoint
            shares: list[float] = []
            with _sampled(shares):
                start = time.perf_counter()
                _run(folder / "run", *options, "--limit", str(rows))
                took = time.perf_counter() - start
    if not torch.cuda.is_available():
        return [Row(f"a run of {rows} rows ended, no GPU to be busy", f"{took:.1f} s")]
    worked = [index for index, share in enumerate(shares) if share > 0]
    inside = shares[worked[0] : worked[-1] + 1] if worked else []
    mean = sum(inside) / len(inside) if inside else 0.0
    return [
        Row(f"a run of {rows} rows, its start included", f"{took:.1f} s"),
        Row("time for which a kernel ran, from the first to the last", f"{mean:.0f}%"),
    ]


@contextlib.contextmanager
def _sampled(shares: list[float]) -> Iterator[None]:
    """Records nvidia-smi's utilization of the first GPU, five times a second, until the block ends."""
    if not torch.cuda.is_available():
        yield
        return
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--id=0", "--loop-ms=200"]
    process = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    reader = threading.Thread(target=lambda lines=process.stdout: shares.extend(map(float, lines)))
    reader.start()
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        reader.join()


def benchmark(machine: Machine) -> list[Row]:
    """Runs V*-Bench with a hub model, and adds the numbers that the benchmark's authors published for it.

    Raises:
        Passed: Weights or data are not available.
    """
    if machine.toy:
        raise Passed("toy size takes no weights from a hub")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        try:
            arguments = ["--method", "likelihood", "--set", "protocol=paper", "--model-option", "dtype=bfloat16"]
            _run(folder, "--model", machine.model, *arguments)
        except RunError as error:
            raise Passed(f"{machine.model} on {_TASK}: {error}") from error
        results = json.loads((folder / "results.json").read_text())
    metrics = results["tasks"][_TASK]["metrics"]
    (overall,) = (one["value"] for one in metrics if one["name"] == "accuracy" and not one["labels"])
    return [
        Row(f"{machine.model}, {_TASK} by log-likelihood, overall", f"{overall:.2f}"),
        *(Row(f"printed for {_LABEL}, {name}", f"{value}") for name, value in printed()),
    ]


def printed() -> list[tuple[str, float]]:
    """Returns the row of the model in V*'s table 1, by column."""
    table = json.loads(_PUBLISHED.read_text())["tables"][0]
    return [(column["name"], value) for column, value in zip(table["columns"], table["rows"][_LABEL], strict=True)]


def _run(folder: Path, *arguments: str) -> None:
    command = [
        sys.executable,
        "-m",
        "orchestrator",
        "eval",
        "--task",
        _TASK,
        "--run",
        str(folder),
        "--quiet",
        *arguments,
    ]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RunError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
