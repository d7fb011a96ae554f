"""orchestrator view over the runs of a bucket: listed by little, fetched once opened, followed, and what goes wrong."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from helpers.engine_cluster import wait_for
from helpers.report_runs import Writer, marvel_run
from helpers.s3_server import BUCKET, S3Server

from orchestrator.cli import main
from orchestrator.cli.view import command
from orchestrator.errors import ConfigError
from orchestrator.report.live import bucket as bucket_module
from orchestrator.report.live.bucket import Bucket, FetchingError
from orchestrator.report.live.server import Site, serve
from orchestrator.run_folder.remote import listing
from orchestrator.run_folder.remote.lease import Lease
from orchestrator.run_folder.remote.mirror import Mirror
from orchestrator.run_folder.remote.store import RemoteError, Store

ODD = "<u>a b#%20"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run folders as they are locally."""
    here = tmp_path_factory.mktemp("here")
    half = Writer(here / "half")
    for number in range(3):
        half.item(f"marvel/{number}", answer="1", score=1.0, verdict={"extracted": "1"})
    half.close(complete=False)
    first, second = (marvel_run(here / name, puzzles=20, pictures=3, model=name) for name in ("first", "second"))
    return {ODD: first, "team/second": second, "team/half": here / "half", "damaged": second}


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.full)])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}/far"
        return
    server = S3Server(tmp_path)
    server.start()
    server.environment(monkeypatch)
    yield f"s3://{BUCKET}/team runs"
    server.kill()


@pytest.fixture
def store(url: str, runs: dict[str, Path]) -> Store:
    """The same runs in a store; the bytes of an answer of one are others than its name says."""
    store = Store(url)
    for path, run in runs.items():
        Mirror(run, store.below(path)).upload()
    damaged = store.below("damaged")
    (name,) = damaged.names("responses")
    damaged.put(f"responses/{name}", (damaged.get(f"responses/{name}") or b"").replace(b"seconds", b"sedonds"))
    return store


def table(site: Site) -> dict[str, dict[str, Any]]:
    return {run["name"]: run for run in orjson.loads(site.runs())}


def opened(site: Site, name: str) -> bytes:
    run = site.find(name)
    assert run is not None
    for _ in range(100):
        try:
            return site.page(run)
        except FetchingError:
            continue
    raise AssertionError("it is never there")


def local(bucket: Bucket, name: str) -> set[str]:
    return {path.name for path in bucket.runs()[name].path.iterdir()}


def test_a_bucket_is_a_table_of_its_runs(
    store: Store, url: str, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(bucket := Bucket(url))
    shown = table(site)
    assert {name: (run["state"], run["answered"]) for name, run in shown.items()} == {
        **dict.fromkeys((ODD, "damaged", "team/second"), ("complete", 20)),
        "team/half": ("stopped", None),
    }
    assert shown[ODD]["metrics"] == table(Site(runs[ODD]))["first"]["metrics"]
    assert shown["team/half"]["note"] == "answers are counted once it is opened"
    assert local(bucket, ODD) == {"manifest.json", "results.json"}

    page = opened(site, ODD).decode()
    assert "<u>" not in page.partition("<body>")[2].partition("<script")[0]
    run = site.find(ODD)
    assert run is not None
    assert (run.path / "responses.jsonl").read_bytes() == (runs[ODD] / "responses.jsonl").read_bytes()
    assert len(list((run.path / "images").iterdir())) == 3
    assert local(bucket, "team/second") == {"manifest.json", "results.json"}
    second = site.find("team/second")
    assert second is not None
    for _ in range(100):
        try:
            compared = site.comparison([run, second], other_data=False)
            break
        except FetchingError:
            continue
    assert b"team/second" in compared
    for _ in range(2):  # and again: the next look tries once more
        with pytest.raises(ConfigError, match=r"damaged: its content is not what its name says") as caught:
            opened(site, "damaged")
        assert f"{url}/damaged/responses" in str(caught.value)
    assert "is damaged" in table(site)["damaged"]["note"]

    # What is used least is dropped, and is fetched again.
    monkeypatch.setattr(bucket_module, "_MOST_BYTES", 0)
    monkeypatch.setattr(bucket_module, "_KEPT_RUNS", 1)
    monkeypatch.setattr(bucket_module, "_KEPT_SECONDS", 0.0)
    bucket.runs()
    kept = [name for name in (ODD, "team/second", "damaged") if "images" in local(bucket, name)]
    assert kept == ["damaged"]
    assert table(site)[ODD]["metrics"]
    assert run.run().path == run.path
    assert len(list((run.path / "images").iterdir())) == 3


def test_a_run_is_followed(store: Store, url: str, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_module, "_EVERY_SECONDS", 0)
    got: list[str] = []
    lease = Lease(store.below("team/half"), 60)
    site = Site(Bucket(url))
    assert table(site)["team/half"]["state"] == "running"
    assert opened(site, "team/half")
    assert table(site)["team/half"]["answered"] == 3
    real = Store.get
    monkeypatch.setattr(Store, "get", lambda self, name: (got.append(f"{self.url}/{name}"), real(self, name))[1])
    lease.release()
    wait_for(lambda: table(site)["team/half"]["state"] == "stopped")
    assert {name.rpartition("/")[2] for name in got} == {"writer.json"}
    got.clear()
    Mirror(runs["team/second"], store.below("new")).upload()
    wait_for(lambda: table(site).get("new", {}).get("state") == "complete")
    assert sorted(name.rpartition("/")[2] for name in got) == ["manifest.json", "results.json"]
    # One that grew is fetched again, but not what is here.
    half = Writer(runs["team/half"].parent / "grown")
    for number in range(4):
        half.item(f"marvel/{number}", answer="1", score=1.0, verdict={"extracted": "1"})
    half.close(complete=False)
    mirror = Mirror(half.path, store.below("team/half"))
    mirror.look()
    mirror.upload()
    wait_for(lambda: table(site)["team/half"]["note"] == "answers as of when it was opened")
    got.clear()
    opened(site, "team/half")
    assert table(site)["team/half"]["answered"] == 4
    assert sum("/responses/" in name for name in got) == 1


def test_a_run_by_itself_says_how_far_it_is_fetched(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, real = threading.Event(), Mirror.fetch
    monkeypatch.setattr(bucket_module, "_WAIT_SECONDS", 0.02)

    def slow(self: Mirror, progress: Callable[[int, int], None]) -> None:
        progress(0, 2_500_000)
        go_on.wait()
        real(self, progress)

    monkeypatch.setattr(Mirror, "fetch", slow)
    server = serve(Bucket(f"{url}/team/second/"), 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"

    def get(path: str) -> tuple[int, str]:
        with urllib.request.urlopen(address + path) as reply:
            return reply.status, reply.read().decode()

    assert f"<h1>{url}/team/second</h1>" in get("")[1].replace("<wbr>", "")
    get("runs/second/")
    status, page = get("runs/second/")
    assert status == 202
    assert "fetching: 0.0 of 2.5 MB" in page
    assert '<meta http-equiv="refresh" content="1">' in page
    (run,) = orjson.loads(get("api/runs")[1])
    assert (run["name"], run["note"]) == ("second", "fetching: 0.0 of 2.5 MB")
    go_on.set()
    wait_for(lambda: get("runs/second/")[0] == 200)
    server.shutdown()
    server.server_close()


def test_what_cannot_be_listed_is_said(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_module, "_EVERY_SECONDS", 0)
    bucket = Bucket(url)

    def fail(*_: object) -> None:
        raise RemoteError("s3://x cannot be reached\x1b[31m")

    monkeypatch.setattr(bucket_module, "find_remote_runs", fail)
    wait_for(lambda: bool(bucket.runs()) and bucket.problem == "s3://x cannot be reached\\x1b[31m")
    assert len(bucket.runs()) == 4


def test_mistakes_are_one_line(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(location: str) -> str:
        done = CliRunner().invoke(command, [location, "--port", "0"])
        assert done.exit_code in (2, 3)
        (line,) = done.output.splitlines()
        return line

    assert "has no run folder, itself or up to 2 folders below" in refused(f"{url}/nothing")
    monkeypatch.setattr(listing, "_MOST_FOLDERS", 3)
    assert "has more than 3 folders: give the URL of one of them" in refused(url)
    if url.startswith("s3:"):
        assert re.search("NoSuchBucket|bucket does not exist", refused("s3://not-there/runs"))


def test_a_run_folder_copied_to_a_bucket_is_shown_reported_and_compared(
    url: str, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `aws s3 cp --recursive` does: the logs are there whole, and not in parts."""
    monkeypatch.chdir(tmp_path)
    for run, name in ((runs[ODD], "first"), (runs["team/second"], "second")):
        for file in run.rglob("*"):
            if file.is_file():
                Store(f"{url}/copied").put(f"{name}/{file.relative_to(run)}", file.read_bytes())
    folder = Bucket(f"{url}/copied")
    for stored in folder.runs().values():
        assert stored.state()["state"] == "complete"
        assert len(list(wait_for(lambda stored=stored: fetched(stored)))) == 20
    result = CliRunner().invoke(main, ["compare", f"{url}/copied/first", f"{url}/copied/second"])
    assert result.exit_code == 0, result.output
    assert "20 items" in result.output
    result = CliRunner().invoke(main, ["report", f"{url}/copied/second"])
    assert result.exit_code == 0, result.output


def fetched(run: Any) -> Any:
    """Returns a run of a bucket once it is here."""
    try:
        return run.run()
    except FetchingError:
        return None
