"""Runs in which the model was asked nothing, by real commands: how they end, what they print, that mending helps."""

from __future__ import annotations

import html
import json
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import orchestrator
from helpers.engine_cluster import Cluster, Server, wait_for
from helpers.judge_server import JudgeServer, Vendor
from helpers.openai_endpoint import completion, endpoint_thread, error
from helpers.openai_proxy import proxied
from helpers.report_runs import puzzle

ROWS = 6
TASK = """\
task: {name}
data: {data}
id: id
image: image
question: question
options: [A, B]
answer: answer
answer_is: letter
"""


class Folder:
    """A task of rows with images, and another of rows without; the first one's images lie where a test puts them."""

    def __init__(self, path: Path) -> None:
        self.path, self.images = path, path / "data" / "images"
        for folder in ("data", "elsewhere"):
            (path / folder).mkdir()
        for number in range(ROWS):
            (path / "elsewhere" / f"{number}.png").write_bytes(puzzle(number))
        self.write("seen", image="images/{}.png")
        self.write("unseen")
        (path / "unseen.yaml").write_text((path / "unseen.yaml").read_text().replace("image: image\n", ""))

    def write(self, name: str, **columns: str) -> None:
        rows = [
            {"id": str(number), "question": "which?", "A": "x", "B": "y", "answer": "A"}
            | {column: value.format(number) for column, value in columns.items()}
            for number in range(ROWS)
        ]
        (self.path / "data" / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (self.path / f"{name}.yaml").write_text(TASK.format(name=name, data=f"data/{name}.jsonl"))

    def link(self) -> None:
        """Makes the folder of images a link that leads out of the data's folder."""
        self.images.symlink_to("../elsewhere")

    def copy(self) -> None:
        """Puts the images where they belong."""
        self.images.unlink(missing_ok=True)
        self.images.mkdir()
        for file in (self.path / "elsewhere").iterdir():
            (self.images / file.name).write_bytes(file.read_bytes())

    def eval(self, *options: str, tasks: tuple[str, ...] = ("seen",), run: str = "run", code: int = 0) -> str:
        named = [word for task in tasks for word in ("--task", f"{task}.yaml")]
        return orchestrator(
            "eval", *named, "--model", "demo:constant:A", "--run", run, *options, folder=self.path, code=code
        )

    def counts(self, run: str = "run", task: str = "seen") -> dict[str, int]:
        counts = json.loads((self.path / run / "results.json").read_text())["tasks"][task]["counts"]
        return {name: number for name, number in counts.items() if number}

    def page(self, run: str = "run") -> str:
        """Text of the report, without its samples."""
        text = html.unescape((self.path / run / "report.html").read_text())
        return text[text.index("<header") : text.index('id="h-model"')]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def line_of(output: str) -> str:
    """Returns the line that says why a command failed: one."""
    (line,) = (line for line in output.splitlines() if line.startswith("Error: "))
    assert "Traceback" not in output
    return line


def test_images_behind_a_link_end_with_2_and_no_number(folder: Folder) -> None:
    folder.link()
    output = folder.eval(code=2)
    assert line_of(output) == (
        "Error: seen: the model was never asked, all 6 items are rejected (outside_data): image images/0.png leads out "
        "of data; image paths must stay inside the data's folder; copy the files there, since a link does not do, then "
        "run the command again"
    )
    sentence = "seen: no result, since the model was never asked: 6 rejected"
    assert sentence in output
    assert "0.0" not in output
    assert "accuracy" not in output
    page = folder.page()
    assert f'<p class="banner bad">{sentence}.</p>' in page
    assert 'class="value"' not in page
    assert "95%" not in page
    # The same command again looks again, and so does one that scores again.
    assert line_of(folder.eval(code=2)) == line_of(output)
    again = orchestrator("score", "run", folder=folder.path, code=2)
    assert "copy the files there, since a link does not do, then run its command again (" in line_of(again)
    folder.copy()
    assert "100.0" in folder.eval()
    assert folder.counts() == {"planned": ROWS, "scored": ROWS}


def test_files_that_are_missing_end_with_3(folder: Folder) -> None:
    line = line_of(folder.eval(code=3))
    assert line.startswith(
        "Error: seen: the model was never asked, all 6 items are rejected (unreadable_image): image "
    )
    assert line.endswith(
        "No such file or directory; mend the data, then run the command in another folder, since a run is "
        "of one state of its data"
    )
    # With most of the images the others count by their outcome; with fewer the result is missing, unless it is allowed.
    folder.images.mkdir()
    for number in range(4):
        (folder.images / f"{number}.png").write_bytes(puzzle(number))
        if number == 0:
            few = folder.eval(run="few", code=4)
            assert line_of(few).startswith("Error: seen: no result: of 6 items 5 rejected, more than half: ")
            assert "16.7" not in few
            assert "no result" in folder.eval("--max-rejected", "90%", run="few")
            limit = "Error: 5 of 6 items are rejected, --max-rejected allows 80.0%"
            assert line_of(folder.eval("--max-rejected", "80%", run="few", code=4)) == limit
    assert "66.7" in folder.eval(run="other")
    assert folder.counts("other") == {"planned": ROWS, "scored": 4, "rejected": 2}


def test_of_several_tasks_the_one_that_was_never_asked_has_no_number(folder: Folder) -> None:
    folder.link()
    output = folder.eval(tasks=("seen", "unseen"), code=2)
    assert line_of(output).startswith("Error: seen: the model was never asked, all 6 items are rejected")
    assert "seen: no result, since the model was never asked: 6 rejected" in output
    assert [line.split()[:2] for line in output.splitlines() if line.lstrip().startswith("accuracy")] == [
        ["accuracy", "100.0"]
    ]
    page = folder.page()
    assert page.count("<article") == 1
    assert '<h3 id="card-1">unseen' in page
    folder.copy()
    folder.eval(tasks=("seen", "unseen"))
    keys = Counter(json.loads(line)["key"] for line in (folder.path / "run" / "responses.jsonl").open())
    assert keys == {f"{task}/{number}": 2 - (task == "unseen") for task in ("seen", "unseen") for number in range(ROWS)}


def test_shards_and_what_is_merged_of_them(folder: Folder) -> None:
    folder.link()
    for index in range(2):
        assert "leads out of data" in line_of(folder.eval("--shard", f"{index}/2", run=f"part{index}", code=2))
    merged = orchestrator("merge", "part0", "part1", "--run", "whole", folder=folder.path, code=2)
    assert "all 6 items are rejected (outside_data)" in line_of(merged)
    assert line_of(merged).endswith("then run the shards' commands again and merge into a new folder")
    folder.copy()
    for index in range(2):
        folder.eval("--shard", f"{index}/2", run=f"part{index}")
    orchestrator("merge", "part0", "part1", "--run", "mended", folder=folder.path)
    assert folder.counts("mended") == {"planned": ROWS, "scored": ROWS}


def test_a_shard_whose_only_items_cannot_be_read_is_left_to_the_merged_run(folder: Folder) -> None:
    """A shard may hold one item, which says nothing of the whole."""
    folder.copy()
    shards = [f"{index}/3" for index in range(3)]
    for number, shard in enumerate(shards):
        folder.eval("--shard", shard, run=f"whole{number}")
    held = [
        {json.loads(line)["key"] for line in (folder.path / f"whole{number}" / "responses.jsonl").open()}
        for number in range(3)
    ]
    assert all(held)
    for key in held[0]:
        (folder.images / f"{key.partition('/')[2]}.png").write_bytes(b"")
    for number, shard in enumerate(shards):
        folder.eval("--shard", shard, run=f"part{number}")
    orchestrator("merge", "part0", "part1", "part2", "--run", "merged", folder=folder.path)
    bad = len(held[0])
    assert folder.counts("merged") == {"planned": ROWS, "scored": ROWS - bad, "rejected": bad}


def test_a_cell_of_a_suite_that_was_never_asked_is_not_complete(folder: Folder) -> None:
    (folder.path / "night.yaml").write_text(
        "models:\n  constant: {model: 'demo:constant:A'}\ntasks:\n  seen.yaml: {}\n  unseen.yaml: {}\n"
    )

    def suite(code: int) -> tuple[str, dict[str, Any]]:
        output = orchestrator("eval", "--suite", "night.yaml", folder=folder.path, code=code)
        (table,) = json.loads((folder.path / "runs/night/leaderboard.json").read_text())["tables"]
        return output, table["models"][0]["tasks"]

    def never(code: int, state: str) -> None:
        output, cells = suite(code)
        assert (cells["seen"]["state"], cells["unseen"]["state"]) == (state, "complete")
        assert "value" not in cells["seen"]
        assert "constant-seen: seen: the model was never asked, all 6 items are rejected" in output
        assert "seen: accuracy 0.0" not in output

    never(3, "incomplete")
    shutil.rmtree(folder.path / "runs")
    folder.link()
    never(2, "failed")
    never(2, "failed")
    folder.copy()
    assert suite(0)[1]["seen"]["value"] == 1


def test_an_endpoint_without_the_route_ends_with_2_and_its_repair_is_enough(tmp_path: Path) -> None:
    """Of three turns the first is refused, which is the reason, and the others follow."""
    pytest.importorskip("openai")
    with endpoint_thread() as endpoint, proxied(endpoint, tmp_path) as server:
        arguments = ["eval", "--task", "voila_wd", "--synthetic", "--limit", "2", "--endpoint", server.address]
        arguments += ["--run", str(tmp_path / "run")]
        answer, endpoint.answer = endpoint.answer, lambda _: error(404, "Not Found")
        output = orchestrator(*arguments, code=2)
        assert line_of(output) == (
            "Error: voila_wd: the model was never asked, all 6 items are rejected (endpoint_not_found): the endpoint "
            "says 404: Not Found; is --model right, and does --base-url end in /v1?; start the model server with what "
            "is right, then run the command again"
        )
        assert "voila_wd: no result, since the model was never asked: 6 rejected" in output
        assert "0.0" not in output
        endpoint.answer, sent = answer, len(endpoint.seen)
        orchestrator(*arguments, code=4)  # its output does not answer the question
        assert len(endpoint.seen) == sent + 6
        orchestrator(*arguments, code=4)
        assert len(endpoint.seen) == sent + 6, "what is answered is not asked again"


def test_an_endpoint_that_refuses_a_parameter_ends_with_2(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    refusal = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is supported."

    def answer(body: dict[str, Any]) -> Any:
        return completion("A") if body.get("temperature", 1) == 1 else error(400, refusal, "unsupported_value")

    with endpoint_thread() as endpoint, proxied(endpoint, tmp_path) as server:
        endpoint.answer = answer
        arguments = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "4"]
        arguments += ["--endpoint", server.address, "--run"]
        output = orchestrator(*arguments, str(tmp_path / "run"), code=2)
        assert line_of(output) == (
            f"Error: the endpoint says 400: {refusal}; leave temperature out: --model-option leave-out=temperature "
            "(of a server that runs already: model-server serve --leave-out temperature)"
        )
        orchestrator(*arguments, str(tmp_path / "other"), "--generation", "temperature=1")


def test_rejected_items_are_asked_again_through_a_kill(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--too-long", "1", "--delay", "0.05")
    options = ("--task", "toy_two", "--limit", "20")
    line = line_of(cluster.eval("run", [server], shared_scorer, *options, code=2))
    assert "toy_two: the model was never asked, all 20 items are rejected (context_overflow)" in line
    assert "change the command or the server, then run the command again" in line
    assert not cluster.calls()
    server.mend("--too-long", "1")
    before = cluster.answered()
    process = cluster.start(*cluster.words("run", [server], shared_scorer, *options))
    wait_for(lambda: cluster.answered() >= before + 6)
    process.send_signal(signal.SIGKILL)
    cluster.ended(process, -signal.SIGKILL)
    cluster.eval("run", [server], shared_scorer, *options)
    assert cluster.counts("run", "toy_two")["scored"] == 20
    lines = cluster.lines("run")
    answered = Counter(line["key"] for line in lines if "response" in line)
    assert set(answered.values()) == {1}, "no answer is asked for twice"
    cluster.eval("fresh", [server], shared_scorer, *options)
    assert cluster.results("fresh") == cluster.results("run")


def test_a_run_that_stops_early_asks_again_too(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--too-long", "1")
    options = ("--limit", "40", "--until", "width<=60")
    cluster.eval("run", [server], shared_scorer, *options, code=2)
    server.mend("--too-long", "1")
    cluster.eval("run", [server], shared_scorer, *options)
    cluster.eval("fresh", [server], shared_scorer, *options)
    assert cluster.results("fresh") == cluster.results("run")


def test_nothing_judged_ends_with_4_when_scored_again_as_well(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    with JudgeServer(Vendor(lambda _: {"choice": "A"}, lasting="refusal")) as url:
        judge = ["--judge", f"openai:x@{url}", "--judge-cache", str(tmp_path / "cache.sqlite")]
        environment = {"LYNCEAN_JUDGE_KEY": "key"}
        task = ["--task", "vstar_bench", "--synthetic", "--limit", "4", "--model", "demo:constant:whichever fits"]
        for arguments in (["eval", *task, "--run", run], ["score", run]):
            output = orchestrator(*arguments, *judge, environment=environment, code=4)
            line = f"Error: none of the 4 items could be judged; orchestrator score {run} asks the judge again"
            assert line_of(output) == line
            assert "vstar_bench: no result: 4 unjudged" in output
            assert "[0.0, " not in output


def test_of_some_images_behind_a_link_only_these_are_asked_again(folder: Folder) -> None:
    folder.copy()
    for number in range(2):
        (folder.images / f"{number}.png").unlink()
        (folder.images / f"{number}.png").symlink_to(f"../../elsewhere/{number}.png")
    folder.eval()
    assert folder.counts() == {"planned": ROWS, "scored": 4, "rejected": 2}
    shutil.rmtree(folder.images)
    folder.copy()
    folder.eval()
    assert folder.counts() == {"planned": ROWS, "scored": ROWS}
    keys = Counter(json.loads(line)["key"] for line in (folder.path / "run" / "responses.jsonl").open())
    assert keys == {f"seen/{number}": 1 + (number < 2) for number in range(ROWS)}
    folder.eval(run="fresh")
    results = [(folder.path / run / "results.json").read_bytes() for run in ("run", "fresh")]
    assert results[0] == results[1]


def test_a_route_that_is_away_for_a_while_is_asked_again(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    with endpoint_thread() as endpoint, proxied(endpoint, tmp_path) as server:
        arguments = ["eval", "--task", "voila_wd", "--synthetic", "--limit", "4", "--endpoint", server.address]
        arguments += ["--run", str(tmp_path / "run"), "--concurrency", "1"]
        arguments += ["--max-unparsed", "1", "--max-rejected", "1"]
        endpoint.replies = [error(404, "Not Found") for _ in range(2)]
        orchestrator(*arguments)
        first = len(endpoint.seen)
        assert first == 2 + 6
        assert "earlier_turn" in (tmp_path / "run" / "responses.jsonl").read_text()
        orchestrator(*arguments)
        assert len(endpoint.seen) == first + 6, "two samples of three turns"
        counts = json.loads((tmp_path / "run" / "results.json").read_text())["tasks"]["voila_wd"]["counts"]
        assert (counts["planned"], counts["rejected"]) == (12, 0)
        orchestrator(*arguments)
        assert len(endpoint.seen) == first + 6


def many(folder: Folder, rows: int) -> None:
    """Makes the data long, all rows of one image."""
    file = folder.path / "data" / "seen.jsonl"
    row = json.loads(file.read_text().splitlines()[0])
    file.write_text("".join(f"{json.dumps(row | {'id': str(number)})}\n" for number in range(rows)))


def test_the_first_hundred_images_behind_a_link_end_the_run(folder: Folder) -> None:
    many(folder, 1000)
    folder.link()
    line = line_of(folder.eval(code=3))
    assert line == (
        "Error: the first 100 requests all ended alike, rejected (outside_data): image images/0.png leads out of data; "
        "image paths must stay inside the data's folder; the rest is not sent: mend it, then run the same command again"
    )
    assert sum(1 for _ in (folder.path / "run" / "responses.jsonl").open()) < 1000
    folder.copy()
    folder.eval()
    assert folder.counts() == {"planned": 1000, "scored": 1000}


def test_the_first_hundred_failures_end_the_run(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--broken", "1")
    options = ("--limit", "400")
    line = line_of(cluster.eval("run", [server], shared_scorer, *options, code=3))
    assert line.startswith("Error: the first 100 requests all ended alike, failed (")
    assert cluster.answered() < 400
    # A hundred of a hundred are all there is: the run is complete, and says so.
    output = cluster.eval("short", [server], shared_scorer, "--limit", "100", code=3)
    assert "100 items failed after retries" in output
    server.mend("--broken", "1")
    cluster.eval("run", [server], shared_scorer, *options)
    cluster.eval("fresh", [server], shared_scorer, *options)
    assert cluster.results("run") == cluster.results("fresh")
