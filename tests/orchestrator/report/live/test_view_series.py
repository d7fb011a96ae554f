"""orchestrator view: the page of trainings among the runs of a folder."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote_plus

import orjson
import pytest
from helpers.engine_cluster import wait_for
from helpers.s3_server import BUCKET, S3Server
from helpers.series_runs import run, series

from orchestrator.report.live import bucket
from orchestrator.report.live.bucket import Bucket, FetchingError
from orchestrator.report.live.local import HOST
from orchestrator.report.live.server import Site, serve
from orchestrator.run_folder.remote.mirror import Mirror
from orchestrator.run_folder.remote.store import Store

Get = Callable[[str], tuple[int, str]]
Sent = Callable[[], Path | Bucket]


@pytest.fixture(params=["folder", "file", pytest.param("s3", marks=pytest.mark.full)])
def sent(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sent]:
    """Returns what a viewer is given of the folder `runs`, brought to where it lies as it is now."""
    monkeypatch.setattr(bucket, "_EVERY_SECONDS", 0)
    runs = tmp_path / "runs"
    if request.param == "folder":
        yield lambda: runs
        return
    server = S3Server(tmp_path)
    if request.param == "s3":
        server.start()
        server.environment(monkeypatch)
    store = Store(f"s3://{BUCKET}/team" if request.param == "s3" else f"file://{tmp_path}/team")

    def send() -> Bucket:
        for manifest in runs.glob("**/manifest.json"):
            mirror = Mirror(manifest.parent, store.below(manifest.parent.relative_to(runs).as_posix()))
            mirror.look()
            mirror.upload()
        for small in runs.glob("**/suite.json"):
            store.put(small.relative_to(runs).as_posix(), small.read_bytes())
        return Bucket(store.url)

    yield send
    server.kill()


@pytest.fixture
def cold(request: pytest.FixtureRequest) -> str:
    """The path of the second training; in a bucket the runs of a suite are at most two folders below."""
    return "deep/cold" if "folder" in request.node.name else "cold run"


@pytest.fixture
def get(tmp_path: Path, sent: Sent, cold: str) -> Iterator[Get]:
    series(tmp_path / "runs/warm start", (0.2, 0.5, 0.8), begun=1)
    series(tmp_path / "runs" / cold, (0.1, 0.3))
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/suite.json").write_text("{}")
    server = serve(sent(), 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def get(path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, server.server_address[1], timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return get(path) if response.status == HTTPStatus.ACCEPTED else (response.status, body)

    yield get
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_list_leads_to_each_and_each_to_the_others(get: Get, cold: str) -> None:
    listed = re.findall(r'href="(series/[^"]*)"', get("/")[1])
    other = quote_plus(cold)
    assert sorted(listed) == sorted(["series/?of=warm+start", f"series/?of={other}"])
    status, page = get("/series/?of=warm+start")
    assert status == 200
    assert f'href="/series/?of=warm+start&amp;of={other}">with {cold}' in page
    assert 'href="/runs/warm%20start/step_200-marvel/"' in page
    status, both = get(f"/series/?of=warm+start&of={other}")
    assert (status, both.count('<path class="line')) == (200, 2)
    compare = re.search(r'href="(/compare/[^"]*)"', page)
    assert compare
    assert get(compare[1].replace("&amp;", "&"))[0] == 200


def test_it_follows_the_training(get: Get, tmp_path: Path, sent: Sent) -> None:
    before = get("/series/?of=warm+start")[1]
    assert "not run" in before
    run(tmp_path / "runs/warm start/step_300-marvel", 0.9, "marvel", seed="new")
    sent()
    after = wait_for(lambda: "not run" not in (page := get("/series/?of=warm+start")[1]) and page)
    assert after.count("<circle") == before.count("<circle") + 1


@pytest.mark.parametrize("query", ["", "?of=", "?of=..%2Fsecret", "?of=%2Fetc", "?of=warm+start%2Fstep_100-marvel"])
def test_nothing_else_is_served(get: Get, query: str) -> None:
    assert get(f"/series/{query}")[0] == 404


def test_a_damaged_one_is_not_listed(get: Get, tmp_path: Path, sent: Sent) -> None:
    folder = tmp_path / "runs/warm start"
    suite = orjson.loads((folder / "suite.json").read_bytes())
    suite["cells"][0]["name"] = "../../secret"
    (folder / "suite.json").write_bytes(orjson.dumps(suite))
    sent()
    get("/api/runs")
    wait_for(lambda: "warm" not in get("/")[1].partition("by step")[2].partition("</p>")[0])
    assert get("/series/?of=warm+start")[0] == 404


def test_the_url_may_be_the_training_and_a_damaged_run_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = series(tmp_path / "night", (0.2, 0.5, 0.8))
    store = Store(f"file://{tmp_path}/team/night")
    for cell in local.glob("*/manifest.json"):
        Mirror(cell.parent, store.below(cell.parent.name)).upload()
    store.put("suite.json", (local / "suite.json").read_bytes())
    damaged = store.below("step_200-marvel")
    (name,) = damaged.names("responses")
    damaged.put(f"responses/{name}", (damaged.get(f"responses/{name}") or b"").replace(b"seconds", b"sedonds"))
    site = Site(Bucket(store.url))
    assert site.trainings() == [("night", "series/?of=night")]

    def page() -> str:
        with contextlib.suppress(FetchingError):
            return (site.series(["night"]) or b"").decode()
        return ""

    shown = wait_for(page)
    assert shown.count("<circle") == 2
    assert "is damaged: its content is not what its name says" in shown


def test_a_training_larger_than_the_kept_runs_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "_MOST_BYTES", 0)
    monkeypatch.setattr(bucket, "_KEPT_RUNS", 1)
    local = series(tmp_path / "night", (0.2, 0.5, 0.8))
    store = Store(f"file://{tmp_path}/team/night")
    for cell in local.glob("*/manifest.json"):
        Mirror(cell.parent, store.below(cell.parent.name)).upload()
    store.put("suite.json", (local / "suite.json").read_bytes())
    site = Site(Bucket(store.url))

    def page() -> str:
        with contextlib.suppress(FetchingError):
            return (site.series(["night"]) or b"").decode()
        return ""

    assert wait_for(page).count("<circle") == 3
