"""orchestrator label: what its page may see, who may write, and that what is said is kept."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.label_runs import judged_run
from helpers.mistakes import mistake
from helpers.report_runs import Writer

from orchestrator.cli.label import command
from orchestrator.report.live.labelling import TOKEN, LabelRequest, Sheet, serve
from orchestrator.report.live.local import HOST
from orchestrator.report.page import document, render
from orchestrator.run_folder import labels
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.reader import open_run

ORCHESTRATOR = Path(sys.executable).with_name("orchestrator")


class Client:
    """A browser's request with given headers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.token = ""

    def open(self) -> list[str]:
        """Opens the page and returns the keys to label."""
        page = self.ask("GET", "/")[1].decode()
        self.token = re.search(r'data-token="([^"]+)"', page)[1]  # type: ignore[index]
        return list(orjson.loads(self.ask("GET", "/api/state")[1])["keys"])

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        response = connection.getresponse()
        reply = response.status, response.read()
        connection.close()
        return reply

    def say(self, body: dict[str, Any] | bytes, **headers: str) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        return self.ask("POST", "/api/label", data, **{TOKEN.replace("-", "_"): self.token, **headers})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return judged_run(tmp_path / "run")


@pytest.fixture
def client(run: Path) -> Iterator[Client]:
    server = serve(Sheet(open_run(run), "marvel", 10, "ann", None), 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Client(server.server_address[1])
    server.shutdown()
    server.server_close()
    thread.join()


def test_no_verdict_is_seen_before_all_is_labelled(client: Client) -> None:
    keys = client.open()
    assert len(keys) == 10
    for number in range(10):
        status, body = client.ask("GET", f"/api/items/{number}")
        item = orjson.loads(body)
        assert (status, item["key"]) == (200, keys[number])
        assert set(item) == {"key", "messages", "answer", "targets"}
        assert b"SECRET" not in body
        assert client.ask("GET", "/api/disagreements")[0] == 404
        assert client.say({"key": keys[number], "mark": "scored", "score": 1})[0] == 200
    disagreements = orjson.loads(client.ask("GET", "/api/disagreements")[1])
    assert {row["key"] for row in disagreements} == {key for key in keys if int(key.partition("/")[2]) % 3 == 0}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", b"Input data was truncated"),
        (b"[]", b"Expected `object`"),
        ({"key": "marvel/none", "mark": "scored", "score": 1.0}, b"no item of the sample"),
        ({"key": "{0}", "mark": "scored"}, b"needs a score"),
        ({"key": "{0}", "mark": "unclear", "score": 1.0}, b"another has none"),
        ({"key": "{0}", "mark": "scored", "score": 1.5}, b"from 0 to 1"),
        ({"key": "{0}", "mark": "right", "score": 1.0}, b"Invalid enum value"),
        ({"key": "{0}", "mark": "scored", "score": 1.0, "by": "bob"}, b"unknown field"),
        (b"x" * 5000, b"a short JSON object"),
    ],
)
def test_what_is_no_label_is_refused(client: Client, run: Path, body: Any, message: bytes) -> None:
    key = client.open()[0]
    if isinstance(body, dict):
        body = {**body, "key": body["key"].format(key)}
    status, reply = client.say(body)
    assert (status, message in reply) == (400, True), reply
    assert labels.read(run) == (None, {})


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Lyncean_Token": ""}, {"X_Lyncean_Token": "guessed"}, {"X_Lyncean_Token": "é"},
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}, {"Origin": f"http://{HOST}:1"},
    ],
)  # fmt: skip
def test_only_its_own_page_may_write(client: Client, run: Path, headers: dict[str, str]) -> None:
    key = client.open()[0]
    label = {"key": key, "mark": "scored", "score": 1.0}
    assert client.say(label, **headers)[0] == 403
    assert labels.read(run) == (None, {})
    assert client.say(label, Origin=f"http://{HOST}:{client.port}")[0] == 200


def test_other_paths_hold_nothing(client: Client) -> None:
    client.open()
    for path in ("/api/items/10", "/api/items/-1", "/api/items/x", "/api/items/", "/images/..%2fmanifest.json", "/x"):
        assert client.ask("GET", path)[0] == 404
    assert client.ask("POST", "/", b"{}", **{TOKEN.replace("-", "_"): client.token})[0] == 404


def test_a_label_that_cannot_be_stored_is_not_acknowledged(client: Client, run: Path) -> None:
    key = client.open()[0]
    log = RunLog(run)
    status, reply = client.say({"key": key, "mark": "scored", "score": 1.0})
    log.close()
    assert (status, b"being written by another process" in reply) == (503, True)
    assert orjson.loads(client.ask("GET", "/api/state")[1])["marks"] == [None] * 10


def started(run: Path, *options: str) -> tuple[subprocess.Popen[str], Client]:
    process = subprocess.Popen(
        [str(ORCHESTRATOR), "label", str(run), "--port", "0", *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, Client(int(process.stdout.readline().split("/")[2].rpartition(":")[2]))


def test_a_killed_server_loses_no_label_and_the_same_command_goes_on(run: Path) -> None:
    process, client = started(run, "--as", "ann", "--n", "20")
    keys = client.open()
    for number, key in enumerate(keys[:12]):
        assert client.say({"key": key, "mark": "scored", "score": number % 2})[0] == 200
    assert client.say({"key": keys[11], "mark": "undone"})[0] == 200
    process.kill()
    process.communicate()
    assert list(labels.read(run)[1]["ann"]) == keys[:11]
    process, client = started(run, "--as", "ann", "--n", "20")
    assert client.open() == keys
    marks = orjson.loads(client.ask("GET", "/api/state")[1])["marks"]
    assert marks == [{"mark": "scored", "score": number % 2} for number in range(11)] + [None] * 9
    process.send_signal(signal.SIGINT)
    assert "11 of 20 labelled; 50 give an estimate" in process.communicate()[0]


def test_two_people_label_the_same_sample_at_once(run: Path) -> None:
    both = [started(run, "--as", name, "--n", "15") for name in ("ann", "bob")]
    keys = [client.open() for _, client in both]
    assert keys[0] == keys[1]

    def work(client: Client) -> None:
        assert [client.say({"key": key, "mark": "scored", "score": 1})[0] for key in keys[0]] == [200] * 15

    threads = [threading.Thread(target=work, args=(client,)) for _, client in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process, _ in both:
        process.send_signal(signal.SIGINT)
        process.communicate()
    marks = labels.read(run)[1]
    assert {name: sorted(mine) for name, mine in marks.items()} == dict.fromkeys(("ann", "bob"), sorted(keys[0]))


def test_mistakes_are_one_line(run: Path, tmp_path: Path) -> None:
    assert "no task 'voila': give one of marvel" in mistake(command, str(run), "--task", "voila")
    assert "1 to 64 printable" in mistake(command, str(run), "--as", "a\nb")
    (run / "results.json").unlink()
    assert "is not complete" in mistake(command, str(run))
    writer = Writer(tmp_path / "two", tasks=["marvel", "vstar"])
    for task in ("marvel", "vstar"):
        writer.item(f"{task}/1", answer="1", score=1.0)
    assert "has several tasks: give --task, one of marvel, vstar" in mistake(command, str(writer.close()))


def test_another_seed_than_that_of_the_labels_is_refused(run: Path, client: Client) -> None:
    key = client.open()[0]
    assert client.say({"key": key, "mark": "unclear"})[0] == 200
    assert "were drawn with --seed 0: leave --seed out" in mistake(command, str(run), "--seed", "3")


def test_a_wrong_answer_gets_one_of_the_kinds_of_error(run: Path, client: Client) -> None:
    key = client.open()[0]
    assert client.say({"key": key, "mark": "scored", "score": 0, "kind": "x"})[0] == 400, "none is offered"
    sheet = Sheet(open_run(run), "marvel", 10, "bob", None, ["perception", "<b>"])
    page = document("label.html", scripts=("label.js",), connect=True, sheet=sheet)
    assert 'data-key="1" data-kind="perception"' in page
    assert "Wrong: &lt;b&gt;" in page
    assert 'data-key="n"' not in page
    for body in ({"score": 0.0}, {"score": 0.0, "kind": "other"}, {"score": 1.0, "kind": "<b>"}):
        with pytest.raises(ValueError, match="one of the kinds of error"):
            sheet.record(LabelRequest(key=key, mark="scored", **body))  # type: ignore[arg-type]
    sheet.record(LabelRequest(key=key, mark="scored", score=0.0, kind="<b>"))
    sheet.record(LabelRequest(key=sheet.keys[1], mark="scored", score=1.0))
    assert [line.kind for line in labels.read(run)[1]["bob"].values()] == ["<b>", ""]
    assert "Kinds of error, by people" in render(open_run(run))
    for kinds in ("one", "a,a", "a,,b", ",".join("abcdefghij")):
        assert "--kinds takes two to nine" in mistake(command, str(run), "--kinds", kinds)
