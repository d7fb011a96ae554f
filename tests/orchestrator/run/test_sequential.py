"""`--until` and `--against`, end to end: the same stop however the run goes, and nothing said that does not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Cluster, Server, wait_for

from orchestrator.compare import leaderboard
from orchestrator.compare.scores import cautions, read
from orchestrator.errors import ConfigError
from orchestrator.report.leaderboard import render
from orchestrator.run.part import part_of, sequential
from orchestrator.run.part.units import specs_of
from orchestrator.run.plan import make
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.reader import open_run

ROWS = ("--limit", "120")
UNTIL = ("--until", "width<=30")


@pytest.fixture(scope="module")
def stopped(shared_cluster: Cluster, half: Server, shared_scorer: Server) -> bytes:
    """The results of an undisturbed run, one request at a time."""
    output = shared_cluster.eval("one", [half], shared_scorer, *ROWS, *UNTIL, "--concurrency", "1")
    assert "toy stopped early after" in " ".join(output.split())
    return shared_cluster.results("one")


def task_of(results: bytes) -> dict[str, Any]:
    task: dict[str, Any] = json.loads(results)["tasks"]["toy"]
    return task


def sequence_of(results: bytes) -> dict[str, Any]:
    """The numbers of the run's only note."""
    [note] = json.loads(results)["notes"]
    assert (note["kind"], note["task"]) == ("sequential", "toy")
    details: dict[str, Any] = note["details"]
    return details


def test_what_a_stopped_run_says_of_itself(shared_cluster: Cluster, stopped: bytes) -> None:
    task = task_of(stopped)
    sequence = sequence_of(stopped)
    assert sequence["stopped"]
    assert 20 < sequence["samples"] < 100
    assert sequence["of_samples"] == 120
    assert 0.28 < sequence["width"] <= 0.3
    assert task["counts"]["planned"] == sequence["samples"]
    by_name = {(metric["name"], bool(metric["labels"])): metric for metric in task["metrics"]}
    accuracy = by_name["accuracy", False]
    assert accuracy["interval"]["method"] == "confidence sequence"
    assert not any("minimum_detectable" in name for metric in task["metrics"] for name in metric["details"])
    others = [metric for metric in task["metrics"] if metric is not accuracy]
    assert not any("interval" in metric for metric in others)
    run = open_run(shared_cluster.folder / "one")
    assert len(run) == sequence["samples"]
    page = (shared_cluster.folder / "one" / "report.html").read_text()
    assert "stopped early after" in page
    assert "95% confidence sequence" in page
    assert "95% CI" not in page
    board = leaderboard.make("suite", [leaderboard.Source("model", "", ["toy"], shared_cluster.folder / "one")])
    page = render(board, shared_cluster.folder)
    sentence = f"confidence sequence, stopped after {sequence['samples']} of 120 samples"
    assert sentence in page
    assert "Score, 95% interval" in page
    assert "Score, 95% CI" not in page
    assert board.as_json()["tables"][0]["models"][0]["tasks"]["toy"]["interval"] == "confidence sequence"


def test_the_stop_is_the_same_at_any_concurrency_and_after_a_kill(
    shared_cluster: Cluster, half: Server, shared_scorer: Server, stopped: bytes
) -> None:
    shared_cluster.eval("many", [half, half], shared_scorer, *ROWS, *UNTIL)
    assert shared_cluster.results("many") == stopped
    answered = shared_cluster.answered("many")
    # Calls go on until the verdicts come, which a busy machine brings late.
    assert sequence_of(stopped)["samples"] <= answered < 120, "it stops before all rows are asked"
    beyond = orjson.loads((shared_cluster.folder / "many" / "beyond.json").read_bytes())["keys"]
    assert answered - len(beyond) == len(open_run(shared_cluster.folder / "many"))

    process = shared_cluster.start(*shared_cluster.words("killed", [half], shared_scorer, *ROWS, *UNTIL))
    wait_for(lambda: shared_cluster.answered("killed") >= 12)
    process.kill()
    process.communicate()
    shared_cluster.eval("killed", [half], shared_scorer, *ROWS, *UNTIL)
    assert shared_cluster.results("killed") == stopped
    before = shared_cluster.answered("killed")
    shared_cluster.eval("killed", [half], shared_scorer, *ROWS, *UNTIL)
    assert (shared_cluster.answered("killed"), shared_cluster.results("killed")) == (before, stopped)
    shared_cluster.orchestrator("score", "killed", "--scorer", shared_scorer.address)
    assert shared_cluster.results("killed") == stopped

    (shared_cluster.folder / "killed" / "beyond.json").write_text("[")
    output = shared_cluster.orchestrator("report", "killed", code=2)
    assert "beyond.json is damaged, it has no keys" in output

    output = shared_cluster.eval("killed", [half], shared_scorer, *ROWS, "--until", "width<=20", code=2)
    assert 'until is "width<=30" there and "width<=20" here' in output


@pytest.mark.usefixtures("stopped")
def test_a_run_that_is_decided_against_another(shared_cluster: Cluster, shared_scorer: Server) -> None:
    right, silent = shared_cluster.model("--concurrency", "4"), shared_cluster.model("--empty", "2")
    shared_cluster.eval("full", [silent], shared_scorer, *ROWS)
    against = (*ROWS, "--until", "decided", "--against", "full")
    text = " ".join(shared_cluster.eval("better", [right], shared_scorer, *against).split())
    assert "points [" in text
    assert "against full: better" in text
    sequence = sequence_of(shared_cluster.results("better"))
    assert sequence["samples"] < 60
    assert sequence["difference"]["low"] > 0
    # What both have is paired, and it is said that this is not a plain comparison.
    both = [read(open_run(shared_cluster.folder / name)) for name in ("full", "better")]
    text = " ".join(caution.text for caution in cautions(*both))
    assert "better: toy stopped early" in text
    assert f"{sequence['samples']} items in both, {120 - sequence['samples']} only in full" in text

    shared_cluster.orchestrator("score", "better", "--scorer", shared_scorer.address)
    assert sequence_of(shared_cluster.results("better")) == sequence
    refused = shared_cluster.eval("x", [right], shared_scorer, *ROWS, "--until", "decided", "--against", "one", code=2)
    assert "stopped early after" in refused
    refused = shared_cluster.eval(
        "x", [right], shared_scorer, "--until", "decided", "--against", "full", "--limit", "130", code=2
    )
    assert "no answer to 10 of the 130 items" in refused
    for name, options in (
        {"repeats": ("--repeats", "2"), "seed": ("--seed", "7"), "shuffle_options": ("--shuffle-options",)}
    ).items():
        shared_cluster.eval(name, [silent], shared_scorer, *ROWS, *options)
        refused = shared_cluster.eval(
            "x", [right], shared_scorer, *ROWS, "--until", "decided", "--against", name, code=2
        )
        assert f"--against {name}: {name} is {options[-1] if options[1:] else True} there and " in refused
        assert f"give both runs the same --{name.replace('_', '-')}" in refused


def test_a_failed_item_is_waited_for_and_nothing_is_asked_beyond_it(
    shared_cluster: Cluster, shared_scorer: Server
) -> None:
    server = shared_cluster.model("--weights", "2", "--concurrency", "2", "--delay", "0.05", "--broken", "5")
    flags = (*ROWS, *UNTIL, "--patience", "0.2")
    output = shared_cluster.eval("broken", [server], shared_scorer, *flags, code=3)
    assert "is failed, and the sequence waits for it" in output
    assert shared_cluster.answered("broken") < 80
    server.mend("--broken", "5")
    shared_cluster.eval("broken", [server], shared_scorer, *flags)
    assert sequence_of(shared_cluster.results("broken"))["stopped"]


def sequences(**options: Any) -> sequential.Sequential:
    part = part_of(make(RunRequest("marvel", synthetic=True, limit=8, **options)))
    assert isinstance(part, sequential.Sequential)
    return part


def test_the_order_follows_from_seed_and_keys_and_keeps_groups_and_repeats_together() -> None:
    keys = [sample.key for sample in sequences(until="width<=10", repeats=2).samples()]
    puzzles = [key.partition(":")[0].removesuffix("#1") for key in keys]
    assert len(keys) == len(set(keys)) == 8 * 5 * 2
    assert [puzzles[at : at + 10] for at in range(0, 80, 10)] == [[name] * 10 for name in dict.fromkeys(puzzles)]
    again = [sample.key for sample in sequences(until="width<=10").samples()]
    assert again == [key for key in keys if "#" not in key]
    assert sorted(again) != again
    assert [sample.key for sample in sequences(until="width<=10", seed=1).samples()] != again


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"until": "width<4"}, "--until width<4: write width<=POINTS"),
        ({"until": "width<=0"}, "points are between 0 and 100"),
        ({"until": "decided"}, "needs --against RUN"),
        ({"until": "width<=4", "against": "x"}, "leave --against out"),
        ({"against": "x"}, "needs --until decided"),
        ({"until": "width<=4", "shard": "0/2"}, "--shard runs a part of them"),
        ({"until": "decided", "against": "nowhere"}, "nowhere is not a run folder"),
    ],
)
def test_what_cannot_be_honest_is_refused_in_a_line(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why.replace("(", r"\(")):
        sequences(**options)


def test_a_task_without_a_mean_is_refused(tmp_path: Path) -> None:
    task = tmp_path / "t.yaml"
    task.write_text('data: r.csv\nquestion: q\nanswer: a\nprompt: "{question}"\nrule: contains_word\n')
    (tmp_path / "r.csv").write_text("id,q,a\n1,x,y\n")
    plan = make(RunRequest(str(task), until="width<=4"))
    assert specs_of(plan, "--until")
    assert sequential.expected(next(iter(sequences(until="width<=40").tasks.values()))).startswith(
        "marvel: stops after"
    )
