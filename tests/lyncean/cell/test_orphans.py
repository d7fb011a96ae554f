"""No cell outlives the process that started it, even one that is killed while a call sleeps."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.engine_cluster import environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc: run the tests on Linux")

_PARENT = """
import os, sys, threading, time
from lyncean.cell import Cell, Fence, Zygote
folder, name, how = sys.argv[1:]
fence = Fence(("/bin", "/usr/bin") * (how == "programs"), (folder,), programs=how == "programs")
setup = "helpers.cell_functions:setup"
zygote = Zygote(setup, {}, fence) if how == "made" else None
cell = Cell(setup, {"folder": folder}, fence, fork=how == "fork", zygote=zygote)
# A thread that ends before the call does starts the cell, and a further process holds the other side of its socket.
starter = threading.Thread(target=lambda: cell.call("add", 1, 2))
starter.start()
starter.join()
other = os.fork()
if not other:
    os.close(1)
    time.sleep(600)
print(other, cell._process.pid, *([zygote._process.pid] if zygote else []), flush=True)
cell.call(name, seconds=600)
"""


def runs(process: int) -> bool:
    """Returns whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("how", "name"),
    [("warm", "waits"), ("fork", "waits"), ("made", "waits"), ("programs", "waits"), ("programs", "program_waits")],
)
def test_a_cell_that_sleeps_ends_with_a_parent_that_is_killed(how: str, name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PARENT, str(tmp_path), name, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as parent:
        assert parent.stdout
        other, *left = map(int, parent.stdout.readline().split())
        try:
            while not (file := tmp_path / "pid").exists() or not file.read_text().strip():
                assert parent.poll() is None, "the call waits"
                time.sleep(0.05)
            left.append(int(file.read_text()))
            assert all(map(runs, left))
            parent.kill()
            parent.wait()
            assert runs(other)
            late = time.monotonic() + 60
            while any(map(runs, left)) and time.monotonic() < late:
                time.sleep(0.05)
            assert not any(map(runs, left)), "nothing is left of the cell"
        finally:
            subprocess.run(["kill", "-9", str(other), *map(str, left)], capture_output=True, check=False)
