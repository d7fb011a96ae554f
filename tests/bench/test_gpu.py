"""`make gpu` at toy size on a CPU: every part runs, and what it writes says so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.page_commands import ROOT, make_commands

PARTS = ("Exactness", "Memory", "Likelihood", "Generation", "Read once", "Throughput", "Busy", "Benchmark")


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench/gpu.py"), *args]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


@pytest.mark.full
def test_all_parts_run_at_toy_size(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = run("--toy", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (file,) = tmp_path.glob("gpu-*.md")
    text = file.read_text()
    title, *parts = re.split(r"\n##? ", text)
    assert re.search(r"CPU, no GPU, \d{4}-\d\d-\d\d\n", title)
    assert "Toy sizes: the numbers measure nothing." in title
    assert [part.partition("\n")[0] for part in parts] == list(PARTS)
    assert "Failed" not in text
    assert "Not run: toy size takes no weights from a hub." in parts[-1]
    assert re.search(r"llava, float32: answers .* \| 4 of 4 \|", text)
    assert re.search(r"hybrid, float32: answers .* \| 4 of 4 \|", text)
    assert re.search(r"\| vLLM \| not measured: ", text)


@pytest.mark.full
def test_without_a_gpu_it_says_so() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: make gpu")
    assert make_commands("make gpu") == [".venv/bin/python bench/gpu.py"]
    done = run()
    assert done.returncode == 2
    assert "this machine has no GPU that torch sees: --toy runs all parts at toy size" in done.stderr


@pytest.mark.full
def test_the_printed_row_is_that_of_the_paper() -> None:
    sys.path[:0] = [str(ROOT / "bench")]
    try:
        from gpu_parts.whole import printed
    finally:
        del sys.path[0]
    assert [value for _, value in printed()] == [43.47, 56.57, 48.68]
