"""Faults, for real: processes killed, stopped, restarted. Everything asked once, results as undisturbed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import Cluster, Server, wait_for

ROWS = ("--limit", "120")


def test_orchestrator_killed_in_the_middle(cluster: Cluster, shared_scorer: Server, expected: bytes) -> None:
    server = cluster.model("--delay", "0.02", "--concurrency", "4")
    arguments = cluster.words("run", [server], shared_scorer, *ROWS)
    for reach in (20, 60, 90):
        process = cluster.start(*arguments)
        wait_for(lambda reach=reach: cluster.answered() >= reach)
        process.kill()
        process.communicate()
    logged = cluster.answered()
    before = cluster.calls()
    cluster.orchestrator(*arguments)
    assert cluster.results("run") == expected
    # What was in flight at a kill is asked again and nothing else is: four calls, three kills.
    repeated = [row for row, count in cluster.calls().items() if count > 1]
    assert len(repeated) <= 12
    assert before.total() - logged <= 12
    assert len(cluster.lines("run")) == 120


def test_a_pause_that_a_server_asks_for_is_kept(cluster: Cluster, shared_scorer: Server, expected: bytes) -> None:
    server = cluster.model("--concurrency", "1", "--pause", "0.2")
    cluster.orchestrator(*cluster.words("run", [server], shared_scorer, *ROWS))
    assert cluster.results("run") == expected
    gaps = re.findall(r"([\d.]+) s after a pause began", (server.folder / "output").read_text())
    assert len(gaps) >= 6
    assert min(map(float, gaps)) >= 0.2


def test_one_of_three_replicas_killed(cluster: Cluster, shared_scorer: Server, expected: bytes) -> None:
    servers = [cluster.model("--delay", "0.02", "--concurrency", "3") for _ in range(3)]
    process = cluster.under_way(servers, shared_scorer, *ROWS, answered=20)
    servers[1].kill()
    cluster.ended(process)
    cluster.whole(expected)


def test_a_replica_that_hangs(cluster: Cluster, shared_scorer: Server, expected: bytes) -> None:
    servers = [cluster.model("--delay", "0.01", "--concurrency", "3") for _ in range(3)]
    process = cluster.under_way(servers, shared_scorer, *ROWS, "--timeout", "5", answered=20)
    servers[0].signal(signal.SIGSTOP)
    cluster.ended(process)
    assert cluster.results("run") == expected


def test_the_only_replica_comes_back(cluster: Cluster, shared_scorer: Server, expected: bytes) -> None:
    server = cluster.model("--delay", "0.02")
    process = cluster.under_way([server], shared_scorer, *ROWS, answered=20)
    server.kill()
    time.sleep(1.0)
    server.start()
    cluster.ended(process)
    assert cluster.results("run") == expected


@pytest.mark.full
def test_a_replica_that_comes_back_with_other_weights_is_not_used(cluster: Cluster, shared_scorer: Server) -> None:
    servers = [cluster.model("--delay", "0.06", "--concurrency", "2") for _ in range(2)]
    process = cluster.under_way(servers, shared_scorer, *ROWS, answered=20)
    servers[0].kill()
    calls = (servers[0].folder / "calls").read_text()
    servers[1].signal(signal.SIGSTOP)  # the run does not end before the other is back, however slow the machine
    servers[0].start("--weights", "2")
    servers[1].signal(signal.SIGCONT)
    output = cluster.ended(process)
    assert "serves another model" in output
    assert (servers[0].folder / "calls").read_text() == calls


def test_no_replica_for_longer_than_patience(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--delay", "0.02")
    process = cluster.under_way([server], shared_scorer, *ROWS, "--patience", "1.5", answered=20)
    server.kill()
    error = cluster.ended(process, 3)
    assert "no model server answers" in error
    assert not any("outcome" in line for line in cluster.lines("run"))


def test_rotating_connections_and_full_queues(cluster: Cluster, shared_scorer: Server, expected: bytes) -> None:
    flags = ("--max-connection-age", "0.3", "--delay", "0.01", "--queue", "2", "--concurrency", "8")
    cluster.eval("run", [cluster.model(*flags)], shared_scorer, *ROWS)
    assert cluster.results("run") == expected


@pytest.mark.full
def test_scorer_killed_and_back(cluster: Cluster, expected: bytes) -> None:
    scorer = cluster.scorer()
    server = cluster.model("--delay", "0.02")
    process = cluster.under_way([server], scorer, *ROWS, answered=30)
    scorer.kill()
    wait_for(lambda: cluster.answered() >= 60)
    scorer.start()
    cluster.ended(process)
    assert cluster.results("run") == expected


@pytest.mark.full
def test_scorer_gone_for_good(cluster: Cluster, expected: bytes) -> None:
    scorer = cluster.scorer()
    server = cluster.model("--delay", "0.01")
    arguments = cluster.words("run", [server], scorer, *ROWS, "--patience", "2")
    process = cluster.start(*arguments)
    wait_for(lambda: cluster.answered() >= 10)
    scorer.kill()
    error = cluster.ended(process, 3)
    assert "every answer is safe" in error
    scorer.start()
    cluster.orchestrator(*arguments)
    assert cluster.results("run") == expected
    assert max(cluster.calls().values()) <= 2


def test_ctrl_c_drains(cluster: Cluster, shared_scorer: Server, expected: bytes) -> None:
    server = cluster.model("--delay", "0.05", "--concurrency", "4")
    arguments = cluster.words("run", [server], shared_scorer, *ROWS)
    process = cluster.start(*arguments)
    wait_for(lambda: cluster.answered() >= 10)
    process.send_signal(signal.SIGINT)
    error = cluster.ended(process, 3)
    assert "run the same command again" in error
    assert "Traceback" not in error
    cluster.orchestrator(*arguments)
    assert cluster.results("run") == expected
    assert cluster.calls() == {str(n): 1 for n in range(120)}


@pytest.mark.full
def test_two_processes_on_one_folder(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--delay", "1")
    arguments = cluster.words("run", [server], shared_scorer, *ROWS)
    process = cluster.start(*arguments)
    wait_for(lambda: cluster.answered() >= 1)
    assert "written by another process" in cluster.orchestrator(*arguments, code=3)
    process.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.full
def test_full_disk(cluster: Cluster, shared_scorer: Server, small_disk: Path, expected: bytes) -> None:
    server = cluster.model("--delay", "0.05", "--concurrency", "2")
    run, ballast = str(small_disk / "run"), small_disk / "ballast"
    process = cluster.start(*cluster.words(run, [server], shared_scorer, *ROWS))
    wait_for(lambda: cluster.answered(run) >= 10)
    fill(ballast)
    error = cluster.ended(process, 3)
    assert "No space left on device" in error
    assert "make room" in error
    assert "Traceback" not in error
    logged = {line["key"] for line in cluster.lines(run)}
    assert 10 <= len(logged) < 120
    ballast.unlink()
    before = cluster.calls()
    cluster.eval(run, [server], shared_scorer, *ROWS)
    assert cluster.results(run) == expected
    after = cluster.calls()
    assert all(after[key.split("/")[1]] == before[key.split("/")[1]] for key in logged)


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
