"""A training's checkpoints and the suite's folder in a bucket, also one that is away for a while."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import commands
from helpers.engine_cluster import Cluster, wait_for
from helpers.letter_training import Training
from helpers.s3_server import BUCKET, S3Server

from orchestrator import RunBusyError, Series
from orchestrator.run_folder.remote import RemoteError
from orchestrator.run_folder.remote.lease import WRITER
from orchestrator.run_folder.remote.listing import find_remote_runs
from orchestrator.run_folder.remote.store import Store
from orchestrator.suite import bucket
from orchestrator.suite.checkpoint_store import RemoteCheckpoints


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.full)])
def base(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A URL below which a test may write."""
    monkeypatch.setenv("LYNCEAN_UPLOAD_SECONDS", "0.2")
    monkeypatch.chdir(tmp_path)
    if request.param == "file":
        yield f"file://{tmp_path}/far"
        return
    server = S3Server(tmp_path)
    server.start()
    server.environment(monkeypatch)
    yield f"s3://{BUCKET}/series"
    server.kill()


def test_a_series_in_a_bucket_goes_on_from_another_machine(training: Training, base: str) -> None:
    """The folder here is removed in between: what another machine has is the bucket alone."""
    for step, letter in ((1, "A"), (2, "B"), (3, "A")):
        training.save(step, letter)
    training.eval("--until", "now", code=4)
    training.save(4, "A").rename(training.folder / "later")
    training.eval("--until", "now", "--run", base, code=4)
    (local,) = training.folder.glob("runs/*-*/suite.json")
    shutil.rmtree(local.parent)
    (training.folder / "later").rename(training.folder / "ckpt" / "step_4")
    output = training.eval("--until", "now", "--run", base, code=4)
    assert output.count("complete already") == 3, "nothing is asked twice"
    assert training.results(str(local.parent))["step_4-letters"]
    results = training.results(str(local.parent))
    assert {name: results[name] for name in training.results()} == training.results()
    store = Store(base)
    assert {"suite.json", "leaderboard.html", "series.html"} <= set(store.names(""))
    assert b"step_4" in (store.get("series.html") or b"")
    assert {"step_1-letters", "step_4-letters"} <= find_remote_runs(store, 2).keys(), "`view` lists them"
    (training.folder / "ckpt" / "step_4").rename(training.folder / "ckpt" / "step_5")
    shutil.rmtree(local.parent)
    with Series("night.yaml", run=base) as series:
        assert series.evaluate("ckpt/step_5").changes
        assert series.run.absolute() == local.parent
    assert b"step_5" in (store.get("series.html") or b"")
    with bucket.kept(base), pytest.raises(RunBusyError, match="is being written by another process"):
        with bucket.kept(base):
            raise AssertionError("two write")


def test_a_watcher_whose_bucket_another_process_takes_over_ends_and_says_so(training: Training, base: str) -> None:
    cluster = Cluster(training.folder)
    process = cluster.start("eval", "--suite", "night.yaml", "--checkpoints", "ckpt/step_*", "--run", base)
    store, lease = Store(base), b'{"id":"x","host":"far","pid":1,"renewed":9e12,"seconds":9}'
    wait_for(lambda: store.get(WRITER) and store.put_version(WRITER, lease, store.get_version(WRITER)[1]))
    assert "is being written by another process (far, pid 1)" in cluster.ended(process, 3)
    assert store.get(WRITER) == lease


@pytest.mark.full
def test_a_bucket_that_is_away_for_a_while_does_not_end_the_watcher(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = S3Server(training.folder)
    server.start()
    server.environment(monkeypatch)
    cluster = Cluster(training.folder)
    arguments = ["eval", "--suite", "night.yaml", "--checkpoints", f"s3://{BUCKET}/ckpt/step_*"]
    process = cluster.start(*arguments)
    assert process.stdout is not None
    try:
        assert "waiting for checkpoints" in process.stdout.readline()
        server.kill()
        assert re.search(r"cannot be reached \(.*\); tried again for 600 s", process.stdout.readline())
        server.start()
        Store(f"s3://{BUCKET}/ckpt").put("step_3/config.json", b"A")
        assert "step_3 is not complete yet" in process.stdout.readline()
        night = training.folder / "night.yaml"
        night.write_text(night.read_text() + "models: {gone: {endpoint: '127.0.0.1:1', patience: 1}}\n")
        impatient = cluster.start(*arguments, "--run", "impatient")
        assert impatient.stdout is not None
        while "waiting for checkpoints" not in (line := impatient.stdout.readline()):
            assert line, impatient.communicate()
        server.kill()
        assert "Error: s3://lyncean-tests/ckpt cannot be reached" in cluster.ended(impatient, 3)
    finally:
        server.kill()
        process.kill()
        process.communicate()


def test_a_checkpoint_that_is_written_anew_while_it_is_fetched_is_fetched_anew(training: Training, base: str) -> None:
    store = Store(f"{base}/ckpt/step_1")
    for name in ("config.json", "STABLE"):
        store.put(name, b"A")
    checkpoints = RemoteCheckpoints(f"{base}/ckpt/step_*")
    ((checkpoint,), _) = checkpoints.find()
    store.put("config.json", b"B")
    with pytest.raises(RemoteError, match="was written anew while it was fetched"):
        checkpoints.fetch(checkpoint)
    ((checkpoint,), _) = checkpoints.find()
    checkpoints.fetch(checkpoint)
    assert (checkpoint.path / "config.json").read_bytes() == b"B"


def test_a_cell_that_was_not_uploaded_yet_stays_in_the_record(training: Training, base: str) -> None:
    training.save(1, "A")
    training.eval("--until", "now", "--run", base)
    before = Store(base).get("suite.json") or b""
    gone = training.save(2, "A")
    training.eval("--until", "now", "--run", base)
    Store(base).put("suite.json", before)
    shutil.rmtree(gone)
    training.eval("--until", "now", "--run", base)
    (local,) = training.folder.glob("runs/*-*/suite.json")
    assert [cell["exit_code"] for cell in training.record(str(local.parent))] == [0, 0]


def test_checkpoints_of_a_bucket_are_fetched_while_they_are_evaluated(training: Training, base: str) -> None:
    store = Store(f"{base}/ckpt")
    for step, letter in ((1, "A"), (2, "B")):
        path = training.save(step, letter)
        (path / "model.safetensors").write_bytes(bytes(range(256)) * 6000)
        for file in path.iterdir():
            store.put(f"{path.name}/{file.name}", file.read_bytes())
    training.eval("--until", "now", code=4)
    shutil.rmtree(training.folder / "ckpt")
    store.put("step_3/config.json", b"A")
    arguments = ["eval", "--suite", "night.yaml", "--checkpoints", f"{base}/ckpt/step_*", "--until", "now"]
    arguments += ["--run", "far"]
    output = commands.orchestrator(*arguments, folder=training.folder, code=4)
    assert "step_3 is not complete yet" in output
    assert training.results("far") == training.results()
    fetched = list(training.folder.glob("runs/step_*/*"))
    assert fetched == [], "nothing stays"
    assert commands.orchestrator(*arguments, folder=training.folder, code=4).count("complete already") == 2
    arguments[4] = f"{base}/*/step_*"
    assert "the last part alone is a pattern" in commands.orchestrator(*arguments, folder=training.folder, code=2)
