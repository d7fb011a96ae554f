"""A run folder whose lock file is deleted: the process that has lost it stops, and the next one goes on."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Cluster, Server

from orchestrator.run import rescore, results
from orchestrator.run_folder.errors import RunBusyError, RunLockError
from orchestrator.run_folder.log import RunLog, State

CONCURRENCY = 4


def add(log: RunLog, number: int) -> None:
    key = f"toy/{number}"
    log.add_response(key, None, orjson.dumps({"key": key, "sample": key}))


def test_a_run_whose_lock_is_deleted_stops_and_the_next_goes_on(
    cluster: Cluster, shared_scorer: Server, expected: bytes
) -> None:
    server = cluster.model("--delay", "0.05", "--concurrency", str(CONCURRENCY))
    first = cluster.under_way([server], shared_scorer, "--limit", "120", answered=20)
    (cluster.folder / "run" / ".lock").unlink()
    second = cluster.start(*cluster.words("run", [server], shared_scorer, "--limit", "120"))
    error = cluster.ended(first, 3)
    assert "Error: run/.lock was deleted or replaced while" in error
    assert "run the same command again to resume" in error
    assert "Traceback" not in error
    cluster.ended(second, 0)
    cluster.whole(expected)
    # Calls in flight and answers not yet written when the first process noticed; without the check about 100.
    repeated = [row for row, count in cluster.calls().items() if count > 1]
    assert len(repeated) <= 2 * CONCURRENCY
    assert max(cluster.calls().values()) <= 2


def test_who_lost_the_lock_writes_nothing_more(tmp_path: Path) -> None:
    first = RunLog(tmp_path)
    add(first, 0)
    first.flush()
    (tmp_path / ".lock").unlink()
    second = RunLog(tmp_path)
    assert second.entry("toy/0").state is State.ANSWERED
    add(first, 1)
    add(second, 2)
    with pytest.raises(RunLockError) as caught:
        first.flush()
    assert caught.value.exit_code == 3
    with pytest.raises(RunLockError):
        first.sync()
    first.close()
    second.close()
    assert [orjson.loads(line)["key"] for line in (tmp_path / "responses.jsonl").open()] == ["toy/0", "toy/2"]
    third = RunLog(tmp_path)
    assert third.responses.read(third.entry("toy/2").offset)["key"] == "toy/2"
    third.close()


def test_a_lock_deleted_and_not_taken_is_lost_all_the_same(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    (tmp_path / ".lock").unlink()
    with pytest.raises(RunLockError, match="deleted or replaced"):
        log.sync()
    log.close()


def test_a_lock_file_replaced_while_it_is_taken_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking, a cleaner deletes the file, and another process makes its own and holds that."""
    real, others = fcntl.flock, list[RunLog]()

    def flock(fd: int, kind: int) -> None:
        if not others:
            monkeypatch.setattr(fcntl, "flock", real)
            (tmp_path / ".lock").unlink()
            others.append(RunLog(tmp_path))
        real(fd, kind)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(RunBusyError, match="written by another process"):
        RunLog(tmp_path)
    others[0].close()
    RunLog(tmp_path).close()


@pytest.mark.parametrize(("whole", "code"), [(True, 2), (False, 3)], ids=["the folder", "its lock"])
def test_results_are_not_written_to_a_folder_that_is_anothers(
    whole: bool, code: int, cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, others, real = cluster.folder / "run", list[RunLog](), results._add_doubts

    def taken(*arguments: Any) -> None:
        """All is read and counted; then the folder is deleted, and another process begins there."""
        real(*arguments)
        if whole:
            shutil.rmtree(run)
        else:
            (run / ".lock").unlink()
        others.append(RunLog(run))

    monkeypatch.setattr(results, "_add_doubts", taken)
    arguments = cluster.words("run", [cluster.model()], shared_scorer, "--limit", "8")
    assert "was deleted or replaced while" in cluster.orchestrator(*arguments, code=code)
    others[0].close()
    assert not (run / "results.json").exists()


def test_scoring_again_without_the_lock_leaves_verdicts_and_results(
    cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.eval("run", [cluster.model()], shared_scorer, "--limit", "8")
    run = cluster.folder / "run"
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.suffix in (".json", ".jsonl")}
    real = rescore._score_all

    async def score_all(*arguments: Any) -> None:
        await real(*arguments)
        (run / ".lock").unlink()

    monkeypatch.setattr(rescore, "_score_all", score_all)
    arguments = ("score", "run", "--scorer", shared_scorer.address)
    assert "run/.lock was deleted or replaced" in cluster.orchestrator(*arguments, code=3)
    assert {name: (run / name).read_bytes() for name in before} == before
    monkeypatch.undo()
    cluster.orchestrator(*arguments)
