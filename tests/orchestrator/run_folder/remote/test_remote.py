"""Run folders behind a URL: killed, resumed elsewhere, sharded, merged; nothing is lost and nothing asked twice."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.engine_cluster import Cluster, Server, wait_for
from helpers.s3_server import BUCKET, SECRET, S3Server
from helpers.same_results import results_of
from obstore.store import LocalStore, from_url

from orchestrator.cli import main
from orchestrator.run_folder.remote.lease import WRITER
from orchestrator.run_folder.remote.store import Store

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def in_folder(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cluster.folder)


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.full)])
def base(request: pytest.FixtureRequest, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL below which a test may write."""
    monkeypatch.setenv("LYNCEAN_UPLOAD_SECONDS", "0.2")
    if request.param == "file":
        return f"file://{cluster.folder}/far"
    server = request.getfixturevalue("s3")
    server.environment(monkeypatch)
    return f"s3://{BUCKET}/{cluster.folder.name}"


def objects(url: str) -> dict[str, bytes]:
    """Everything below a URL."""
    if url.startswith("file://"):
        files = LocalStore(url.removeprefix("file://"), mkdir=True)
    else:
        files = from_url(url, client_options={"allow_http": True})
    return {entry["path"]: files.get(entry["path"]).bytes().to_bytes() for entry in files.list().collect()}


def uploaded(url: str) -> list[str]:
    """Keys of the answers in a remote run folder."""
    parts = [data for name, data in sorted(objects(url).items()) if name.startswith("responses/")]
    return [json.loads(line)["key"] for line in b"".join(parts).splitlines()]


def orchestrator(*arguments: str, code: int = 0) -> str:
    """Runs a command in this process and returns what it prints."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    return done.output


def local(cluster: Cluster) -> Path:
    (folder,) = [path for path in (cluster.folder / "runs").iterdir() if "superseded" not in path.name]
    return folder


def hold(server: Server, calls: int) -> None:
    """Stops a model that has answered so many calls: the run does not end, however slow the machine."""
    log = server.folder / "calls"
    wait_for(lambda: log.exists() and len(log.read_text().split()) >= calls)
    server.signal(signal.SIGSTOP)


def test_killed_and_resumed_on_another_machine(cluster: Cluster, shared_scorer: Server, base: str) -> None:
    orchestrator(*cluster.words("whole", [cluster.model()], shared_scorer))
    url = f"{base}/killed"
    server = cluster.model("--delay", "0.2", "--concurrency", "2")
    process = cluster.start(*cluster.words(url, [server], shared_scorer))
    hold(server, 8)
    wait_for(lambda: len(uploaded(url)) > 4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = uploaded(url)
    assert 4 < len(before) < 40
    (cluster.folder / "runs").rename(cluster.folder / "the other machine")
    again = cluster.model()
    orchestrator(*cluster.words(url, [again], shared_scorer))
    calls = (again.folder / "calls").read_text().split()
    assert len(calls) == len(set(calls)) == 40 - len(before)
    assert not {f"toy/{number}" for number in calls} & set(before)
    assert objects(url)["results.json"] == cluster.results("whole")
    assert results_of(local(cluster)) == cluster.results("whole")
    images = {path.name for path in (cluster.folder / "whole" / "images").iterdir()}
    assert {path.name for path in (local(cluster) / "images").iterdir()} == images
    assert objects(url)[WRITER] == b"{}"
    everything = [path.read_bytes() for path in cluster.folder.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in data for data in [*everything, *objects(url).values()])


def test_resumed_on_the_same_machine_and_read_from_there(cluster: Cluster, shared_scorer: Server, base: str) -> None:
    url = f"{base}/read"
    server = cluster.model()
    orchestrator(*cluster.words(url, [server], shared_scorer, "--max-tokens-total", "100"), code=3)
    assert 0 < len(uploaded(url)) < 40
    orchestrator(*cluster.words(url, [server], shared_scorer))
    assert cluster.calls() == {str(number): 1 for number in range(40)}
    names = set(objects(url))
    orchestrator(*cluster.words(url, [server], shared_scorer))
    assert set(objects(url)) == names
    (cluster.folder / "runs").rename(cluster.folder / "elsewhere")
    assert "40 planned = 40 scored" in orchestrator("report", url, "--format", "terminal")
    assert "items 0 better, 0 worse" in orchestrator("compare", url, str(local(cluster)))
    results = objects(url)["results.json"]
    orchestrator("score", url, "--scorer", shared_scorer.address)
    assert objects(url)["results.json"] == results
    error = orchestrator("report", f"{base}/none", code=2)
    assert "is not a run folder: manifest.json is missing" in error


def test_shards_are_merged(cluster: Cluster, shared_scorer: Server, base: str) -> None:
    server = cluster.model()
    orchestrator(*cluster.words("whole", [server], shared_scorer))
    shards = [f"{base}/part{index}" for index in range(2)]
    for index, url in enumerate(shards):
        orchestrator(*cluster.words(url, [server], shared_scorer, "--shard", f"{index}/2"))
    (cluster.folder / "runs").rename(cluster.folder / "elsewhere")
    orchestrator("merge", *shards, "--run", f"{base}/merged", "--scorer", shared_scorer.address)
    assert objects(f"{base}/merged")["results.json"] == cluster.results("whole")
    assert len(uploaded(f"{base}/merged")) == 40


@pytest.mark.full
@pytest.mark.parametrize("base", ["s3"], indirect=True)
def test_the_commands_of_the_page(cluster: Cluster, base: str) -> None:
    page = Path(__file__).parents[4] / "docs" / "run-folder.md"
    (block,) = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines():
        output = orchestrator(*shlex.split(line.replace("s3://bucket", base))[1:])
    assert "items 0 better, 0 worse" in output
    first, whole = (objects(f"{base}/runs/{name}")["results.json"] for name in ("first", "whole"))
    assert first == whole


def test_a_second_writer_is_refused(cluster: Cluster, shared_scorer: Server, base: str) -> None:
    url = f"{base}/two"
    server = cluster.model("--delay", "2", "--concurrency", "1")
    first = cluster.start(*cluster.words(url, [server], shared_scorer))
    wait_for(lambda: "manifest.json" in objects(url))
    output = orchestrator(*cluster.words(url, [server], shared_scorer), code=3)
    # On one machine the folder's own lock may be met before the one at the address.
    where = rf"({re.escape(socket.gethostname())}, )?pid {first.pid}"
    assert re.search(rf"is being written by another process \({where}\)", output)
    # Somebody else takes it over: who wrote before stops at his next upload, and uploads nothing more.
    store, lease = Store(url), b'{"id":"x","host":"far","pid":1,"renewed":9e12,"seconds":9}'
    wait_for(lambda: store.put_version(WRITER, lease, store.get_version(WRITER)[1]))
    _, error = first.communicate(timeout=300)
    assert first.returncode == 3
    assert "is being written by another process (far, pid 1)" in error
    assert objects(url)[WRITER] == lease


@pytest.mark.full
def test_a_lost_upload_names_the_local_folder(
    cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = S3Server(cluster.folder)
    server.start()
    server.environment(monkeypatch)
    url = f"s3://{BUCKET}/lost"
    slow = cluster.model("--delay", "0.2", "--concurrency", "4")
    try:
        process = cluster.start(*cluster.words(url, [slow], shared_scorer))
        hold(slow, 1)
        wait_for(lambda: "manifest.json" in objects(url))
        server.kill()
        slow.signal(signal.SIGCONT)
        _, error = process.communicate(timeout=150)
        assert process.returncode == 3, error
        (line,) = [line for line in error.splitlines() if line.startswith("Error:")]
        assert "not all of the run is uploaded" in line
        assert f"all of it is in runs/{local(cluster).name}: run the same command on this machine again" in line
        assert cluster.answered(str(local(cluster))) == 40
        server.start()
        orchestrator(*cluster.words(url, [slow], shared_scorer))
        assert len(uploaded(url)) == 40
        assert max(cluster.calls().values()) == 1
    finally:
        server.kill()
