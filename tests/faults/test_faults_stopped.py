"""The scorer and the orchestrator stopped (SIGSTOP) in the middle of a run, for a while and for good."""

from __future__ import annotations

import signal
import time

import pytest
from helpers.engine_cluster import Cluster, Server, wait_for

pytestmark = pytest.mark.full

ROWS = ("--limit", "120")


def test_scorer_stopped_and_continued(cluster: Cluster, expected: bytes) -> None:
    scorer = cluster.scorer()
    server = cluster.model("--delay", "0.02")
    process = cluster.under_way([server], scorer, *ROWS, answered=20)
    scorer.signal(signal.SIGSTOP)
    scored = len(cluster.lines("run", "verdicts.jsonl"))
    # Answers do not wait for the scorer; their verdicts do.
    wait_for(lambda: cluster.answered() == 120)
    assert scored < 120
    assert process.poll() is None
    scorer.signal(signal.SIGCONT)
    cluster.ended(process)
    cluster.whole(expected)
    assert cluster.calls() == {str(n): 1 for n in range(120)}


def test_orchestrator_stopped_for_longer_than_a_call_may_take(
    cluster: Cluster, shared_scorer: Server, expected: bytes
) -> None:
    servers = [cluster.model("--delay", "0.02", "--max-connection-age", "0.5") for _ in range(2)]
    arguments = cluster.words("run", servers, shared_scorer, *ROWS, "--timeout", "2", "--patience", "20")
    process = cluster.start(*arguments)
    for reach in (20, 60):
        wait_for(lambda reach=reach: cluster.answered() >= reach)
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)  # the fault itself: deadlines pass and connections are rotated meanwhile
        process.send_signal(signal.SIGCONT)
    process.communicate(timeout=300)
    assert process.returncode in (0, 3)
    if process.returncode:  # a call that both stops hit has failed twice: the same command asks it again
        cluster.ended(cluster.start(*arguments))
    cluster.whole(expected)
    # Only what was in flight at a stop may have been asked twice.
    assert sum(count > 1 for count in cluster.calls().values()) <= 2 * 2 * 4


@pytest.mark.full
def test_scorer_stopped_for_good(cluster: Cluster, expected: bytes) -> None:
    """Nothing closes the connection: it is the client's pings that find the scorer dead."""
    scorer = cluster.scorer()
    server = cluster.model("--delay", "0.02")
    arguments = cluster.words("run", [server], scorer, *ROWS, "--patience", "2")
    process = cluster.start(*arguments)
    wait_for(lambda: cluster.answered() >= 20)
    scorer.signal(signal.SIGSTOP)
    error = cluster.ended(process, 3)
    assert "every answer is safe" in error
    assert cluster.answered() == 120
    scorer.signal(signal.SIGCONT)
    cluster.orchestrator(*arguments)
    cluster.whole(expected)
    assert cluster.calls() == {str(n): 1 for n in range(120)}
