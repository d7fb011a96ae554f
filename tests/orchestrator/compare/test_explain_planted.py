"""orchestrator explain: differences that are planted in real runs are put down to what was planted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import HERE, Server
from helpers.planted import PLANTED, evaluate, explain, planted


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(*flags: str) -> Server:
        command = [sys.executable, str(HERE / "explain_server.py"), *flags]
        started.append(Server(tmp_path_factory.mktemp("server"), command).start())
        return started[-1]

    yield start
    for each_server in started:
        each_server.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Task files of both sides, `first` and `second`."""
    return planted(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def runs(folder: Path, server: Callable[..., Server], shared_scorer: Server) -> tuple[Path, Path, Server]:
    model = server()
    folders = [evaluate(folder, side, f"run-{side}", model, shared_scorer) for side in ("first", "second")]
    return folders[0], folders[1], model


def tasks_of(*arguments: object) -> dict[str, dict[str, Any]]:
    result = explain(*arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return {task["task"]: task for task in json.loads(result.stdout)["tasks"]}


def check_sum(task: dict[str, Any]) -> None:
    """The shares sum to the difference in the printed decimals."""
    assert round(sum(round(100 * cause["points"]) for cause in task["causes"])) == round(100 * task["difference"])
    assert round(100 * task["first"]) + round(100 * task["difference"]) == round(100 * task["second"])
    if task["difference"]:
        assert sum(cause["percent"] for cause in task["causes"]) == 100


def test_planted_differences_are_put_down_to_what_was_planted(runs: tuple[Path, Path, Server]) -> None:
    tasks = tasks_of(*runs[:2])
    right = wrong = 0
    for name, (_, cause) in PLANTED.items():
        check_sum(tasks[name])
        causes = {entry["cause"]: entry["items"] for entry in tasks[name]["causes"]}
        if not cause:
            assert not causes, name
            continue
        assert cause in causes, (name, causes)
        right += causes.pop(cause)
        wrong += sum(causes.values())
    assert right > 150
    assert right >= 0.95 * (right + wrong), tasks


@pytest.mark.parametrize(
    ("flags", "cause"),
    [(["--revision", "2"], "server"), (["--noise", "1"], "noise"), (["--fails", "4"], "failure")],
)
def test_servers_are_told_apart(
    folder: Path,
    runs: tuple[Path, Path, Server],
    server: Callable[..., Server],
    shared_scorer: Server,
    flags: list[str],
    cause: str,
) -> None:
    other = evaluate(folder, "first", f"run{flags[0]}", server(*flags), shared_scorer, "same")
    (task,) = tasks_of(runs[0], other).values()
    check_sum(task)
    assert {entry["cause"]: entry["items"] > 5 for entry in task["causes"]} == {cause: True}
    if cause == "server":
        model = server(*flags)
        options = ["--endpoint", model.address, "--scorer", shared_scorer.address, "--limit", "7", "--json"]
        experiment = json.loads(explain(runs[0], other, *options).stdout)["experiment"]
        assert experiment["same_as"] == [False, True]
        assert {item["found"] for item in experiment["items"]} == {"server"}
        assert len(experiment["items"]) == 7
        assert experiment["not_tried"] == task["causes"][0]["items"] - 7
    if cause == "failure":
        # The same run by both denominators: nothing but the metric differs.
        (task,) = tasks_of(other, other, "--metric", "accuracy", "--metric", "accuracy.answered").values()
        check_sum(task)
        assert {entry["cause"]: entry["items"] for entry in task["causes"]} == {"aggregation": 15}
        assert task["difference"] > 0


def test_single_causes_are_tried_on_a_live_server(runs: tuple[Path, Path, Server], shared_scorer: Server) -> None:
    first, second, model = runs
    options = ["--endpoint", model.address, "--scorer", shared_scorer.address, "--limit", "500", "--json"]
    tasks = [word for task in ("suffix", "stop", "small", "rule", "both") for word in ("--task", task)]
    result = explain(first, second, *tasks, *options)
    assert result.exit_code == 0, (result.output, result.exception)
    experiment = json.loads(result.stdout)["experiment"]
    assert experiment["same_as"] == [True, True]
    assert experiment["not_tried"] == 0
    wanted = {"suffix": "prompt", "stop": "decoding", "small": "image", "rule": "reading", "both": "prompt"}
    by_task = {name: {i["found"] for i in experiment["items"] if i["key"].startswith(f"{name}/")} for name in wanted}
    assert by_task == {name: {cause} for name, cause in wanted.items()}


def test_a_page_for_an_issue(runs: tuple[Path, Path, Server], tmp_path: Path) -> None:
    page = tmp_path / "why.md"
    result = explain(*runs[:2], "--task", "both", "--markdown", page)
    assert result.exit_code == 0, result.output
    assert "prompt or decoding" in result.stdout
    text = page.read_text(encoding="utf-8")
    assert "| `prompt or decoding` |" in text
    assert "Answer with a letter.⟦ Think hard.⟧" in text
    assert "`max_output_tokens 48`" in text
    assert "`data.both.sha256`" in text
    assert "data.suffix" not in text, "another task's"
    assert "`versions.lyncean`" in text
    assert explain(*runs[:2], "--task", "both", "--markdown", "-").stdout == text
