"""A training's checkpoints evaluated as they come: by the watcher and from Python, stopped and started again."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from helpers import commands
from helpers.engine_cluster import Cluster, Server, wait_for
from helpers.letter_training import ROWS, Training
from helpers.page_commands import ROOT, commands as page_commands
from helpers.same_results import results_of
from rich.console import Console

from orchestrator import ConfigError, RunBusyError, Series
from orchestrator.compare import leaderboard
from orchestrator.run import local_server
from orchestrator.run.local_server import LocalServer
from orchestrator.run_folder.lock import lock
from orchestrator.suite.file import SuiteFile
from orchestrator.suite.watch import Watcher

PAGE = ROOT / "docs" / "suites.md"


def test_the_watcher_and_python_give_one_curve(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    for step, letter in ((9, "A"), (20, "B")):
        training.save(step, letter)
    output = training.eval("--until", "now", code=4)
    assert "alarm: step_20 fell from step_9: -80.0 points" in output
    assert "Error: the gate: FAIL" in output
    # A checkpoint more, and its folder looks complete only later: what is there already asks nothing.
    path = training.save(300, "A")
    (path / "STABLE").rename(path / "not yet")
    assert "step_300 is not complete yet" in training.eval("--until", "now", code=4)
    (path / "not yet").rename(path / "STABLE")
    output = training.eval("--until", "step>=300", code=4)
    assert output.count("complete already") == 2
    assert [(cell["model"], cell["step"], cell["exit_code"]) for cell in training.record()] == [
        ("step_9", 9, 0),
        ("step_20", 20, 0),
        ("step_300", 300, 0),
    ]
    board = training.board()
    assert [(one["model"], one["baseline"], one["alarm"]) for one in board["changes"]] == [
        ("step_20", "step_9", True),
        ("step_300", "step_20", False),
    ]
    # The same folders from Python, elsewhere and in another order.
    elsewhere = training.folder / "elsewhere"
    shutil.copytree(training.folder / "ckpt", elsewhere)
    monkeypatch.chdir(training.folder)
    series = Series("night.yaml", run="other")
    for step in (20, 9, 300):
        last = series.evaluate(elsewhere / f"step_{step}")
    assert (last.name, last.step, last.results["letters"]["accuracy"].value) == ("step_300", 300, 90.0)
    assert not last.alarm
    assert series.evaluate(elsewhere / "step_20").alarm.startswith("fell from step_9")
    assert training.results("other") == training.results()
    assert training.board("other")["changes"] == board["changes"]


def test_a_series_that_is_kept_open_starts_one_scorer(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(training.folder)
    (training.folder / "night.yaml").write_text("tasks: [letters.yaml]\n")
    started: list[tuple[str, LocalServer]] = []

    class Noted(LocalServer):
        def __init__(self, module: str, *arguments: Any, **options: Any) -> None:
            super().__init__(module, *arguments, **options)
            started.append((module, self))

    monkeypatch.setattr(local_server, "LocalServer", Noted)
    paths = [training.save(step, "A") for step in (1, 2)]
    with Series("night.yaml") as series:
        for path in [*paths, *paths]:
            assert series.evaluate(path).results["letters"]["accuracy"].value == 90.0
    assert sorted(module for module, _ in started) == ["model_server", "model_server", "scorer"]
    assert all(server.ended for _, server in started)


def test_checkpoints_that_are_gone_or_moved_keep_their_cells(training: Training) -> None:
    first, second = training.save(1, "A"), training.save(2, "A")
    training.eval("--until", "now")
    results = training.results()
    shutil.rmtree(first)
    (training.folder / "moved").mkdir()
    second.rename(training.folder / "moved" / "step_2")
    arguments = ["eval", "--suite", "night.yaml", "--checkpoints", "moved/step_*", "--until", "now"]
    assert commands.orchestrator(*arguments, folder=training.folder).count("complete already") == 1
    assert training.results() == results
    # Other weights under a name that was evaluated are refused, as another model is.
    (training.folder / "moved" / "step_2" / "config.json").write_text("B")
    output = commands.orchestrator(*arguments, folder=training.folder, code=2)
    assert "step_2-letters: failed" in output


def test_a_share_is_the_same_items_at_each_checkpoint(training: Training) -> None:
    suite = training.folder / "night.yaml"
    suite.write_text(suite.read_text().replace('"}\n', '", share: 0.5}\n'))
    for step, letter in ((1, "A"), (2, "B")):
        training.save(step, letter)
    training.eval("--until", "now")
    (change,) = training.board()["changes"]
    assert change["items"] == ROWS // 2
    keys = [
        {
            json.loads(line)["key"]
            for line in (training.folder / f"runs/night/step_{step}-letters/responses.jsonl").open()
        }
        for step in (1, 2)
    ]
    assert keys[0] == keys[1]
    assert len(keys[0]) == ROWS // 2


def test_many_checkpoints_are_ranked_and_not_tested_against_the_best(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboard, "_MOST_TO_BEST", 2)
    for step, letter in ((1, "A"), (2, "B"), (3, "A")):
        training.save(step, letter)
    training.eval("--until", "now", code=4)
    cells = [model["tasks"]["letters"] for model in training.board()["tables"][0]["models"]]
    assert [(cell["rank"], "to_best" in cell) for cell in cells] == [(1, False), (3, False), (1, False)]


def test_a_signal_ends_the_wait(training: Training) -> None:
    cluster = Cluster(training.folder)
    process = cluster.start("eval", "--suite", "night.yaml", "--checkpoints", "ckpt/step_*")
    assert process.stdout is not None
    assert "waiting for checkpoints of ckpt/step_*" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert "no checkpoint of ckpt/step_* is complete; run the same command again" in cluster.ended(process, 3)


def test_a_signal_that_comes_with_the_answer_of_a_bucket_ends_the_wait(training: Training) -> None:
    console = Console(file=io.StringIO())
    watcher = Watcher(SuiteFile.read(training.folder / "night.yaml"), "ckpt/step_*", training.folder / "run", console)

    async def both() -> bool | None:
        signalled = asyncio.Event()
        signalled.set()
        return await watcher._patiently(lambda: True, signalled)

    assert asyncio.run(both()) is None


def test_one_watcher_at_a_time(training: Training) -> None:
    training.save(1, "A")
    (training.folder / "runs/night").mkdir(parents=True)
    taken = lock(training.folder / "runs/night")
    assert "is being written by another process" in training.eval("--until", "now", code=3)
    with pytest.raises(RunBusyError):
        Series(training.folder / "night.yaml", run=training.folder / "runs/night").evaluate(
            training.folder / "ckpt/step_1"
        )
    taken.close()
    assert "no checkpoint of none_* is complete" in commands.orchestrator(
        *["eval", "--suite", "night.yaml", "--checkpoints", "none_*", "--until", "now"],
        folder=training.folder,
        code=3,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "night.yaml", "--checkpoints", "x", "--until", "width<=8"], "beside --checkpoints write step>="),
        (["--checkpoints", "x"], "--checkpoints needs --suite FILE"),
        (["--suite", "night.yaml"], "models is missing: it is needed, unless --checkpoints"),
        (["--suite", "night.yaml", "--checkpoints", "x", "--limit", "3"], "--limit beside --suite"),
    ],
)
def test_mistakes_are_named(training: Training, arguments: list[str], message: str) -> None:
    assert message in commands.orchestrator("eval", *arguments, folder=training.folder, code=2)


def test_a_step_belongs_to_one_checkpoint(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(training.folder)
    series = Series("night.yaml")
    one = training.save(1, "A")
    series.evaluate(one)
    other = one.rename(training.folder / "last")
    with pytest.raises(ConfigError, match="last has no step in its name, as step_100 has: give step=N"):
        series.evaluate(other)
    assert series.evaluate(other, step=7).name == "step_7"
    with pytest.raises(ConfigError, match=r"step_7 of .* is of step 7 too"):
        series.evaluate(other.rename(training.folder / "checkpoint_7"))
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        series.evaluate(training.folder)


def test_the_page_tells_what_works(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = [shlex.split(line, comments=True) for line in page_commands(PAGE) if "--checkpoints" in line]
    endless, ending = typed
    assert ending[: len(endless)] == endless
    for step in (300, 2000):
        training.save(step, "A")
    commands.orchestrator(*ending[1:], folder=training.folder)
    assert len(training.results()) == 2
    monkeypatch.chdir(training.folder)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(code, names := {})  # noqa: S102 - the page's own lines
    assert names["found"].step == 300


@pytest.mark.weekly
@pytest.mark.timeout(4000)
def test_killed_twice_it_gives_the_curve_of_one_that_ran_through(tmp_path: Path, shared_scorer: Server) -> None:
    """The bundled model itself, in processes of their own that are killed in the middle of a checkpoint."""
    from model_server.demo import CHECKPOINT

    cluster = Cluster(tmp_path)
    for step in (1, 2):
        shutil.copytree(CHECKPOINT, tmp_path / f"ckpt/step_{step}")
        (tmp_path / f"ckpt/step_{step}/STABLE").touch()
    (tmp_path / "night.yaml").write_text(
        f'tasks: {{marvel: {{synthetic: true, limit: 24}}}}\noptions: {{scorer: "{shared_scorer.address}"}}\n'
    )
    arguments = ["eval", "--suite", "night.yaml", "--checkpoints", "ckpt/step_*", "--until", "step>=2"]
    cluster.ended(cluster.start(*arguments, "--run", "whole"), timeout=900)  # a busy machine takes minutes
    servers = [
        json.loads((tmp_path / f"whole/step_{step}-marvel/manifest.json").read_text())["replicas"] for step in (1, 2)
    ]
    assert servers[0] == servers[1], "the second was loaded in place of the first"
    for step in (1, 2):
        process = cluster.start(*arguments, "--run", "killed")
        wait_for(lambda step=step: cluster.answered(f"killed/step_{step}-marvel") >= 4, 900)
        process.kill()
        process.communicate()
    cluster.ended(cluster.start(*arguments, "--run", "killed"), timeout=900)
    for step in (1, 2):
        folders = [tmp_path / run / f"step_{step}-marvel" for run in ("whole", "killed")]
        assert results_of(folders[0]) == results_of(folders[1])
        keys = [[json.loads(line)["key"] for line in (folder / "responses.jsonl").open()] for folder in folders]
        assert sorted(keys[0]) == sorted(keys[1]), "nothing was logged twice"
    cluster.close()
