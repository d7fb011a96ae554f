"""`orchestrator view`: pages, access, and runs that grow."""

from __future__ import annotations

import base64
import contextlib
import gzip
import html
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import orjson
import pytest
from click.testing import CliRunner
from helpers.report_runs import Writer, marvel_run

from orchestrator.cli.view import command
from orchestrator.report.live import server as view_server
from orchestrator.report.live.followed import Folder, Tally
from orchestrator.report.live.local import HOST
from orchestrator.report.live.server import serve
from orchestrator.report.page import render
from orchestrator.run_folder.errors import RunBusyError
from orchestrator.run_folder.lines import CountedLine, sealed
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.reader import Run, open_run


class Client:
    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, method: str = "GET", host: str | None = None) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"{HOST}:{self.port}")
        connection.endheaders()
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body, dict(response.getheaders())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    marvel_run(tmp_path / "runs" / "first", puzzles=20)
    marvel_run(tmp_path / "runs" / "deep" / "a b", puzzles=10, model="other")
    (tmp_path / "secret").write_text("do not read")
    return tmp_path / "runs"


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    server = serve(folder, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Client(server.server_address[1])
    server.shutdown()
    server.server_close()
    thread.join()


def test_runs_are_listed(client: Client) -> None:
    status, body, headers = client.get("/api/runs")
    assert (status, headers["Content-Type"], headers["Cache-Control"]) == (200, "application/json", "no-store")
    runs = {run["name"]: run for run in orjson.loads(body)}
    assert set(runs) == {"first", "deep/a b"}
    first = runs["first"]
    assert (first["model"], first["state"], first["answered"]) == ("llava-tiny", "complete", 20)
    assert first["metrics"][0]["name"] == "AVR"
    assert sum(first["counts"].values()) == 20


def test_pages_and_images_are_served(client: Client, folder: Path) -> None:
    for run in orjson.loads(client.get("/api/runs")[1]):
        status, body, headers = client.get("/" + run["address"])
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"Content-Security-Policy" in body
    name = next((folder / "first" / "images").iterdir()).name
    status, body, headers = client.get(f"/runs/first/images/{name}")
    assert (status, headers["Content-Type"]) == (200, "image/png")
    assert body == (folder / "first" / "images" / name).read_bytes()
    assert client.get(f"/runs/first/images/{name}", "HEAD")[1] == b""
    assert client.get("/")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../secret", "/runs/../secret", "/runs/first/../../secret", "/runs/first/images/../../../secret",
        "/runs/%2e%2e/secret/", "/runs/first/%2e%2e/%2e%2e/", "/runs/first%2fimages/",
        "/runs//etc/passwd", "//etc/passwd",
        "/runs/first/manifest.json", "/runs/first/images/" + "0" * 64, "/runs/first/images/..%2fmanifest.json",
        "/runs/none/", "/favicon.ico", "/runs/first/images/" + "a" * 63 + "%00",
        "/compare/?run=../secret&run=first", "/compare/x",
    ],
)  # fmt: skip
def test_nothing_else_can_be_read(client: Client, path: str) -> None:
    status, body, _ = client.get(path)
    assert status == 404
    assert b"do not read" not in body


def test_a_link_out_of_the_folder_is_no_image(client: Client, folder: Path) -> None:
    (folder / "first" / "images" / ("b" * 64)).symlink_to(folder.parent / "secret")
    assert client.get("/runs/first/images/" + "b" * 64)[0] == 404


@pytest.mark.parametrize("host", ["localhost", HOST, "LOCALHOST:{}", "localhost:{}", f"{HOST}:80"])
def test_its_own_names_are_answered_with_a_port_or_without(client: Client, host: str) -> None:
    assert client.get("/api/runs", host=host.format(client.port))[0] == 200


def test_what_a_page_may_do_and_that_no_other_frames_it_is_said_in_a_header(client: Client, folder: Path) -> None:
    for path in ("/", "/runs/first/"):
        _, body, headers = client.get(path)
        policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', body.decode())
        assert policy
        assert headers["Content-Security-Policy"] == html.unescape(policy[1]) + "; frame-ancestors 'none'"
    image = next((folder / "first" / "images").iterdir()).name
    for path in ("/api/runs", "/none", f"/runs/first/images/{image}"):
        assert client.get(path)[2]["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_the_last_few_pages_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        marvel_run(tmp_path / str(number), puzzles=1)
    rendered: list[str] = []
    monkeypatch.setattr(view_server, "render", lambda run, **_: rendered.append(run.name) or run.name)
    site = view_server.Site(tmp_path)
    runs = site.folder.runs()
    for name in "0123340424":
        assert site.page(runs[name]) == name.encode()
    assert "".join(rendered) == "0123402"


def test_a_page_that_two_ask_for_is_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both, rendered = threading.Barrier(2), []

    def render(run: Run, **_: object) -> str:
        rendered.append(run.name)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(1)
        return run.name

    monkeypatch.setattr(view_server, "render", render)
    site = view_server.Site(folder)
    run = site.folder.runs()["first"]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(site.page, (run, run))) == [b"first", b"first"]
    assert rendered == ["first"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:80", "", "[", "localhost.evil.example", ":80"]
)
def test_other_names_are_refused(client: Client, host: str) -> None:
    status, body, _ = client.get("/api/runs", host=host or "x:1")
    assert status == 403
    assert b"llava" not in body


def compare(client: Client, *names: str, more: str = "") -> tuple[int, str, dict[str, str]]:
    status, body, headers = client.get("/compare/?" + urlencode([("run", name) for name in names]) + more)
    return status, html.unescape(body.decode()), headers


def test_runs_are_compared_on_request(client: Client, folder: Path) -> None:
    marvel_run(folder / "first", puzzles=20, skill=1.0)
    status, page, headers = compare(client, "deep/a b", "first")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "<title>deep/a b · first</title>" in page
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert policy
    assert headers["Content-Security-Policy"] == policy[1] + "; frame-ancestors 'none'"
    coded = re.search(r'<script type="application/gzip" id="index">([^<]*)</script>', page)
    assert coded
    folders = orjson.loads(gzip.decompress(base64.b64decode(coded[1])))["folders"]
    assert folders == ["/runs/deep/a%20b/", "/runs/first/"]
    name = next((folder / "first" / "images").iterdir()).name
    assert client.get(f"{folders[1]}images/{name}")[0] == 200
    assert compare(client, "deep/a b", "first")[1] == page
    marvel_run(folder / "first", puzzles=20, skill=0.0)
    assert compare(client, "deep/a b", "first")[1] != page, "a run that changed is compared anew"


def test_runs_that_cannot_be_compared_say_why(client: Client, folder: Path) -> None:
    for names in ((), ("first",), ("first", "none"), ("first", "../secret")):
        assert compare(client, *names)[:1] == (404,)
    for name, task in (("one", "x"), ("<b>other", "y")):
        writer = Writer(folder / name, data={task: {"sha256": name}, "x": {"sha256": name}})
        writer.item(f"{task}/1", answer="1", score=1.0)
        writer.item("x/2", parts=[{"text": name}], targets=[name], answer="1", score=1.0)
        writer.close()
    assert compare(client, "one", "first")[0] == 409
    status, page, headers = compare(client, "one", "<b>other")
    assert (status, headers["Content-Type"]) == (409, "text/html; charset=utf-8")
    assert "1 of 1 items have the same key in one and <b>other, and another prompt and target" in page
    link = re.search(r'href="\?([^"]*)">Compare them all the same', page)
    assert link
    assert client.get("/compare/?" + link[1])[0] == 200
    assert b"<b>other" not in client.get("/compare/?" + link[1])[1]


def test_no_folder_hides_the_others(client: Client, folder: Path) -> None:
    """Neither a name that is not UTF-8 nor a manifest with fields of other types."""
    odd = folder / os.fsdecode(b"odd \xff")
    marvel_run(odd, puzzles=3)
    for name, changes in (("a", {"model": [1]}), ("b", {"planned": 5}), ("c", {"identity": {"tasks": 7}})):
        path = marvel_run(folder / name, puzzles=1)
        manifest = orjson.loads((path / "manifest.json").read_bytes())
        manifest.pop("identity_sha256")
        (path / "manifest.json").write_bytes(orjson.dumps(manifest | changes))
    runs = {run["name"]: run["address"] for run in orjson.loads(client.get("/api/runs")[1])}
    assert set(runs) == {"first", "deep/a b", "odd \ufffd", "a", "b", "c"}
    assert client.get("/" + runs["odd \ufffd"])[0] == 200


def test_a_complete_run_is_listed_without_its_logs(client: Client, folder: Path) -> None:
    """Its results count its items: two hundred thousand lines are not read for a row of the table."""
    before = orjson.loads(client.get("/api/runs")[1])
    for run in ("first", "deep/a b"):
        (folder / run / "responses.jsonl").write_bytes(b"")
        (folder / run / "verdicts.jsonl").write_bytes(b"")
    assert [run | {"mean": None} for run in orjson.loads(client.get("/api/runs")[1])] == before
    (folder / "first" / "results.json").unlink()
    first = next(run for run in orjson.loads(client.get("/api/runs")[1]) if run["name"] == "first")
    assert (first["state"], sum(first["counts"].values())) == ("stopped", 0)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_it_only_reads(client: Client, method: str) -> None:
    assert client.get("/api/runs", method)[0] == 501


def test_how_many_items_there_will_be(client: Client, folder: Path) -> None:
    """An estimate from the start, the number once every row was planned; older runs have neither while they run."""
    writer = Writer(folder / "live")
    writer.item("marvel/1", answer="1", score=1.0, verdict={"extracted": "1"})
    manifest = writer.close(complete=False) / "manifest.json"
    content = orjson.loads(manifest.read_bytes())
    content.pop("planned", None)

    def look(**fields: object) -> tuple[object, object]:
        manifest.write_bytes(orjson.dumps(content | fields))
        run = next(run for run in orjson.loads(client.get("/api/runs")[1]) if run["name"] == "live")
        return run["total"], run["estimated"]

    assert look() == (None, True)
    assert look(expected=770) == (770, True)
    assert look(expected=770, planned={"marvel": 765, "vstar": 1}) == (766, False)


def test_it_follows_a_run(client: Client, folder: Path) -> None:
    writer = Writer(folder / "live")
    writer.item("marvel/1", answer="1", score=1.0, verdict={"extracted": "1"})
    path = writer.close(complete=False)

    def look() -> dict[str, object]:
        return next(run for run in orjson.loads(client.get("/api/runs")[1]) if run["name"] == "live")

    first = look()
    assert (first["state"], first["answered"], first["mean"]) == ("stopped", 1, 1.0)
    assert b"not complete: the same command resumes it" in client.get("/runs/live/")[1]
    with (path / "responses.jsonl").open("ab") as file:
        file.write(sealed(orjson.dumps(orjson.loads(writer.responses[0]) | {"key": "marvel/2"})) + b"\n")
        file.write(b'{"key": "marvel/3", "to')
    verdict = {**writer.verdicts[0], "key": "marvel/2", "score": 0.0}
    with (path / "verdicts.jsonl").open("ab") as file:
        file.write(
            sealed(orjson.dumps(verdict))
            + b"\n"
            + sealed(orjson.dumps({**verdict, "key": "marvel/1", "outcome": "unparsed"}))
            + b"\n"
        )
    second = look()
    assert (second["answered"], second["mean"]) == (2, 0.0)
    assert second["state"] == "running", "it grows: another machine writes it"
    assert second["counts"] == {"scored": 1, "unparsed": 1, "refused": 0, "rejected": 0, "unjudged": 0, "failed": 0}
    assert b"marvel/2" not in client.get("/")[1]


def test_a_log_that_was_written_anew_is_counted_anew(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(4):
        writer.item(f"marvel/{number}", answer="1", score=1.0)
    writer.item("marvel/5", answer="1", outcome="step")
    path = writer.close(complete=False)
    (run,) = Folder(tmp_path).runs().values()
    assert (run.state()["answered"], run.state()["mean"], run.state()["counts"]["scored"]) == (5, 0.8, 4)
    for line in writer.verdicts[:2]:
        line |= {"outcome": "unparsed", "score": 0.0}
    new = tmp_path / "new"
    new.write_bytes(b"[]\n" + b"".join(sealed(orjson.dumps(line)) + b"\n" for line in writer.verdicts[:4]))
    new.replace(path / "verdicts.jsonl")
    state = run.state()
    assert (state["answered"], state["mean"]) == (5, 0.5)
    assert state["counts"] | {"scored": 2, "unparsed": 2} == state["counts"]
    (path / "responses.jsonl").write_bytes(writer.responses[0])
    assert (run.state()["answered"], run.state()["mean"]) == (1, 0.5)


def test_what_is_remembered_of_an_item_does_not_depend_on_its_key() -> None:
    tally, items, before = Tally(), 20_000, 0
    tracemalloc.start()
    try:
        for number in range(items):
            if number == 5_000:  # the hashes of the latest keys are kept by then
                before = tracemalloc.get_traced_memory()[0]
            line = CountedLine(f"marvel/{'x' * 200}{number}", "scored", number / items)
            tally.answer(line)
            tally.judge(line)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert (tally.answered, tally.counts["scored"], tally.mean) == (items, items, pytest.approx(0.5, abs=1e-4))
    assert held < 60 * items


def test_nothing_is_written(client: Client, folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    for path in ("/", "/api/runs", "/runs/first/", "/compare/?run=first&run=deep/a+b"):
        assert client.get(path)[0] == 200
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_the_state_comes_from_the_folder_and_never_from_file_times(tmp_path: Path) -> None:
    """A copy has the state of its run: complete with results, running while a process holds it, else stopped."""

    def states() -> dict[str, tuple[str, bool]]:
        by_name = {name: str(run.state()["state"]) for name, run in Folder(tmp_path).runs().items()}
        return {name: (word, f"it is {word}" in render(open_run(tmp_path / name))) for name, word in by_name.items()}

    done = marvel_run(tmp_path / "done", puzzles=3)
    writer = Writer(tmp_path / "live")
    writer.item("marvel/1", answer="1", score=1.0)
    live = writer.close(complete=False)
    for file in (done / "responses.jsonl", done / "verdicts.jsonl"):  # as `cp` leaves them: later than the results
        os.utime(file, (4e9, 4e9))
    os.utime(done / "results.json", (1, 1))
    with closing(RunLog(live)):
        shutil.copytree(live, tmp_path / "copy")
        assert states() == {"done": ("complete", False), "live": ("running", True), "copy": ("stopped", False)}
        with pytest.raises(RunBusyError):
            RunLog(live)
    assert states()["live"] == ("stopped", False)


def test_a_manifest_half_written_is_looked_at_again(tmp_path: Path) -> None:
    path = marvel_run(tmp_path / "run", puzzles=3)
    whole = (path / "manifest.json").read_bytes()
    folder = Folder(path)
    (path / "manifest.json").write_bytes(whole[:40])
    assert next(iter(folder.runs().values())).state()["model"] == "run"
    (path / "manifest.json").write_bytes(whole)
    assert next(iter(folder.runs().values())).state()["model"] == "llava-tiny"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("results.json", b'{"tasks": [1]}', b"results.json is damaged"),
        ("manifest.json", b'{"identity": 1}', b"is not the manifest of a run"),
        ("responses.jsonl", b'{"key":"marvel/1:avr" 1}\n', b"responses.jsonl, line 1: damaged"),
        ("verdicts.jsonl", b'{"key":"marvel/1:avr","score":"x" 1}\n', b"verdicts.jsonl, line 1: damaged"),
    ],
)
def test_a_damaged_run_says_so_on_its_page_and_hides_no_other(
    client: Client, folder: Path, name: str, content: bytes, message: bytes
) -> None:
    (folder / "first" / name).write_bytes(content)
    status, body, _ = client.get("/api/runs")
    assert status == 200
    assert {run["name"] for run in orjson.loads(body)} == {"first", "deep/a b"}
    status, body, headers = client.get("/runs/first/")
    assert (status, headers["Content-Type"]) == (500, "text/html; charset=utf-8")
    assert message in html.unescape(body.decode()).encode()
    assert client.get("/runs/deep/a%20b/")[0] == 200


@pytest.mark.parametrize("viewed", ["{}", "file://{}/first"])
def test_command_serves_until_it_is_interrupted(folder: Path, tmp_path: Path, viewed: str) -> None:
    """A folder, or the URL of one run, which is fetched."""
    command = [sys.executable, "-m", "orchestrator", "view", viewed.format(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stdout
        address = re.match(rf"http://{HOST}:(\d+)/", process.stdout.readline())
        assert address
        client = Client(int(address[1]))
        assert client.get("/")[0] == 200
        assert b'"llava-tiny"' in client.get("/api/runs")[1]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 0


def test_a_taken_port_is_a_mistake(folder: Path) -> None:
    server = serve(folder, 0)
    result = CliRunner().invoke(command, [str(folder), "--port", str(server.server_address[1])])
    server.server_close()
    assert result.exit_code == 2
    assert "give another --port" in result.output


def test_a_run_of_a_part_says_which(folder: Path, client: Client) -> None:
    def change(run: str, name: str, **fields: object) -> None:
        path = folder / run / name
        path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), **fields}))

    change("first", "manifest.json", shard={"index": 1, "of": 4})
    note = {
        "kind": "sequential",
        "sentence": "marvel stopped",
        "task": "marvel",
        "brief": "stopped after 5 of 50 samples",
    }
    change("deep/a b", "results.json", notes=[note])
    runs = {run["name"]: run["part"] for run in orjson.loads(client.get("/api/runs")[1])}
    assert runs == {"first": "shard 1/4", "deep/a b": "stopped after 5 of 50 samples"}
