"""A clock that jumps while a run is under way: pauses, deadlines and patience must not follow it."""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.engine_cluster import HERE, Cluster, Server, wait_for

pytestmark = pytest.mark.full

ROWS = ("--limit", "120")
DAY = 86_400


class Clock:
    """The wall clock of processes started with `words` before them: `jump` sets it while they run."""

    def __init__(self, folder: Path, compiler: str) -> None:
        library = folder / "jumping_clock.so"
        source = HERE / "jumping_clock.c"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
        self._file = (folder / "ahead").open("w+b")
        self.jump(0)
        self.prefix = ("env", f"JUMPING_CLOCK={self._file.name}", f"LD_PRELOAD={library}")

    def jump(self, seconds: int) -> None:
        """Makes it so many seconds ahead of the machine's."""
        self._file.seek(0)
        self._file.write(struct.pack("=q", seconds))
        self._file.flush()

    def read(self) -> tuple[float, float]:
        """Returns what a process on this clock reads: time of day, monotonic time."""
        command = [*self.prefix, sys.executable, "-c", "import time; print(time.time(), time.monotonic())"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        wall, monotonic = map(float, output.split())
        return wall, monotonic


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    compiler = shutil.which("cc")
    if sys.platform != "linux" or not compiler:
        pytest.skip("a clock of a process's own takes Linux and a C compiler")
    return Clock(tmp_path, compiler)


def test_the_clock_itself(clock: Clock) -> None:
    wall, monotonic = clock.read()
    clock.jump(2 * DAY)
    later, monotonic_later = clock.read()
    assert DAY < later - wall < 3 * DAY
    assert 0 < monotonic_later - monotonic < DAY


@pytest.mark.parametrize("where", ["orchestrator", "servers"])
def test_the_clock_jumps(cluster: Cluster, clock: Clock, expected: bytes, where: str) -> None:
    cluster.before = clock.prefix if where == "servers" else ()
    servers = [cluster.model("--delay", "0.05", "--concurrency", "4", "--queue", "2") for _ in range(2)]
    scorer = cluster.scorer()
    cluster.before = clock.prefix if where == "orchestrator" else ()
    arguments = cluster.words(
        "run", servers, scorer, *ROWS, "--timeout", "20", "--patience", "20", "--deadline", "3000"
    )
    process = cluster.start(*arguments)
    for reach, seconds in ((15, DAY), (35, -DAY), (55, 400 * DAY), (75, -30), (95, 3600)):
        wait_for(lambda reach=reach: cluster.answered() >= reach or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        clock.jump(seconds)
    cluster.ended(process)
    assert cluster.results("run") == expected
    assert cluster.counts("run")["scored"] == 120
    lines = cluster.lines("run")
    assert len({line["key"] for line in lines}) == len(lines) == 120
    assert all(0 <= line["seconds"] < 20 for line in lines)
    if where == "orchestrator":
        # The jumps reached it: when calls began is the one thing that is read off this clock.
        assert len({line["started"][:10] for line in lines}) >= 4


def test_patience_outlives_a_jump(cluster: Cluster, shared_scorer: Server, clock: Clock, expected: bytes) -> None:
    server = cluster.model("--delay", "0.02")
    arguments = cluster.words("run", [server], shared_scorer, *ROWS, "--patience", "30")
    cluster.before = clock.prefix
    process = cluster.start(*arguments)
    wait_for(lambda: cluster.answered() >= 20)
    server.kill()
    for seconds in (DAY, -DAY):
        clock.jump(seconds)
        time.sleep(1.0)
        assert process.poll() is None, "patience is not read off a clock that jumps"
    server.start()
    cluster.ended(process)
    assert cluster.results("run") == expected


def test_a_replica_hangs_while_the_clock_goes_back(
    cluster: Cluster, shared_scorer: Server, clock: Clock, expected: bytes
) -> None:
    servers = [cluster.model("--delay", "0.01", "--concurrency", "3") for _ in range(2)]
    arguments = cluster.words("run", servers, shared_scorer, *ROWS, "--timeout", "5", "--patience", "30")
    cluster.before = clock.prefix
    process = cluster.start(*arguments)
    wait_for(lambda: cluster.answered() >= 20)
    servers[0].signal(signal.SIGSTOP)
    clock.jump(-DAY)
    cluster.ended(process)
    assert cluster.results("run") == expected
