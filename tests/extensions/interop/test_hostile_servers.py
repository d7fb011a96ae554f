"""Twelve servers that are of no use, each asked five kinds of tasks: no number of theirs stands there as a result."""

from __future__ import annotations

import html
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from helpers.commands import orchestrator, run
from helpers.engine_cluster import HERE, Server
from helpers.openai_endpoint import endpoint_thread, error
from helpers.report_runs import puzzle

from orchestrator.cli import main
from orchestrator.report.live.server import serve

ROWS = 12
WAYS = [
    *("undecided", "always_a", "always_wrong", "empty", "refuses", "garbage", "lists", "truncated"),
    *("error", "unreadable", "echo"),
]
LETTERS = """
options: [A, B, C, D]
answer: letter
"""
TASKS = {
    "letters": "question: question" + LETTERS + "answer_is: letter\n",
    "seen": "question: question\nimage: image" + LETTERS + "answer_is: letter\n",
    "yes_no": "question: question\nanswer: yes_no\nrule: yes_no\n",
    "number": "question: question\nanswer: number\nrule: number\n",
    "colour": "question: question\nanswer: colour\n",
}


class Hostile:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rows = []
        for number in range(ROWS):
            (folder / f"{number}.png").write_bytes(puzzle(number))
            rows.append(
                {"id": str(number), "question": f"What is in picture {number}?", "image": f"{number}.png"}
                | {"A": "a cat", "B": "a dog", "C": "a cow", "D": "a hen", "letter": "ABC"[number % 3]}
                | {"yes_no": ("yes", "no")[number % 2], "number": str(3 + number % 2)}
                | {"colour": ("red", "green", "blue")[number % 3]}
            )
        (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        for name, keys in TASKS.items():
            (folder / f"{name}.yaml").write_text(f"task: {name}\ndata: rows.jsonl\nid: id\n{keys}")
        self.way = folder / "way"
        command = ["env", f"HOSTILE={self.way}", sys.executable, str(HERE / "hostile_server.py")]
        self.server = Server(folder / "server", command).start()

    def eval(self, way: str, *args: str, endpoint: str = "") -> tuple[int, str]:
        self.way.write_text(way)
        tasks = [word for task in TASKS for word in ("--task", f"{task}.yaml")]
        endpoint = endpoint or self.server.address
        done = run(main, "eval", *tasks, "--endpoint", endpoint, "--run", way, *args, folder=self.folder)
        return done.exit_code, done.stderr + done.stdout


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    started = Hostile(tmp_path_factory.mktemp("hostile"))
    yield started
    started.server.kill()


def names_problem(output: str, task: str) -> bool:
    """Returns True if a line names the problem of a task's results."""
    return any(line.startswith(f"{task}: ") for line in output.splitlines())


def with_number(output: str) -> set[str]:
    """The tasks whose accuracy stands in the table."""
    rows = (line.split() for line in output.splitlines())
    return {row[0] for row in rows if row[1:2] == ["accuracy"] and re.fullmatch(r"\d+\.\d", row[2])}


def check(hostile: Hostile, way: str, code: int, output: str, codes: dict[str, int]) -> None:
    assert code == codes.get(way, 4), output
    assert "Traceback" not in output
    assert all(names_problem(output, task) for task in TASKS), output
    page = html.unescape((hostile.folder / way / "report.html").read_text())
    banners = re.findall(r'<p class="banner( bad)?">(\w+): ', page)
    assert {task for _, task in banners} == TASKS.keys()
    void = {task for bad, task in banners if bad}
    assert not with_number(output) & void
    assert bool(void) is bool(code), "only a number that may be one ends with 0"
    table = orchestrator("export", way, "--format", "md", folder=hostile.folder)
    rows = {line.split(":")[0].strip("| "): line for line in table.splitlines() if ": accuracy |" in line}
    assert {task for task, row in rows.items() if "no result" in row} == void
    gate = ",".join(f"{task}/accuracy>=0" for task in TASKS)
    comparison = orchestrator("compare", way, "--gate", gate, folder=hostile.folder, code=4 if void else 0)
    assert comparison.count("FAIL") == len(void)
    with listen(hostile.folder) as address:
        with urlopen(f"{address}/api/runs", timeout=300) as reply:
            seen = next(listed for listed in json.load(reply) if listed["name"] == way)
    assert not {metric["task"] for metric in seen["metrics"]} & void
    assert {line.partition(":")[0] for line in seen["doubts"]} == TASKS.keys()


@contextmanager
def listen(folder: Path) -> Iterator[str]:
    with serve(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_a_bare_number(way: str, hostile: Hostile) -> None:
    check(hostile, way, *hostile.eval(way), codes={"error": 3, "unreadable": 2})


def test_a_route_that_is_not_there(hostile: Hostile) -> None:
    """Behind an endpoint whose chat route answers 404, as a proxy's does."""
    pytest.importorskip("openai")
    with endpoint_thread() as endpoint:
        endpoint.answer = lambda _: error(404, "Not Found")
        command = [sys.executable, "-m", "model_server", "serve", "--backend", "openai", "--model", "m"]
        server = Server(hostile.folder / "proxy", [*command, "--base-url", endpoint.url]).start()
        try:
            code, output = hostile.eval("route", endpoint=server.address)
        finally:
            server.kill()
    check(hostile, "route", code, output, {"route": 2})


def test_nothing_read_is_not_ranked_and_no_baseline(hostile: Hostile) -> None:
    hostile.way.write_text("empty")
    (hostile.folder / "night.yaml").write_text(
        f'models:\n  empty: {{endpoint: "{hostile.server.address}"}}\n  guesses: {{model: "demo:hash"}}\n'
        "tasks: [letters.yaml]\ngate: {baseline: empty, conditions: ['change.low>=-2%', 'failed<=1%']}\n"
    )
    for _ in range(2):  # the second time nothing is asked
        output = orchestrator("eval", "--suite", "night.yaml", folder=hostile.folder, code=4)
    assert "complete already" in output
    suite = hostile.folder / "runs" / "night"
    (table,) = json.loads((suite / "leaderboard.json").read_text())["tables"]
    cells = {row["model"]: row["tasks"]["letters"] for row in table["models"]}
    assert cells["empty"]["state"] == "no result"
    assert "12 of 12 answers could not be read" in cells["empty"]["error"]
    assert not {"value", "rank"} & cells["empty"].keys()
    assert cells["guesses"]["state"] == "complete"
    assert "| empty | no result |" in (suite / "leaderboard.md").read_text()
    assert ">no result</span>" in (suite / "leaderboard.html").read_text()
    gate = [line.split()[1:3] for line in output.splitlines() if line.startswith("gate  ")]
    assert gate == [["FAIL", "change.low>=-2%"], ["pass", "failed<=1%"]]
