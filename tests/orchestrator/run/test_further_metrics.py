"""`--metric`: any metric for any task, when a run is made and when it is scored again."""

from __future__ import annotations

import json
from math import comb
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from helpers.commands import orchestrator

ROWS = 12
TASK = "data: rows.csv\nquestion: question\noptions: [A, B]\nanswer: answer\n"
METRICS = ("pass_at,k=2", "pass_at,k=3,all=true", "avg_at,k=3", "consistency", "abstention,of=risk", "accuracy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task, and a run of three repeats of it that asked for its own metrics alone."""
    path = tmp_path_factory.mktemp("further")
    rows = [f"{n}?,cat {n},dog {n},{'AB'[n % 2]}" for n in range(ROWS)]
    (path / "rows.csv").write_text("\n".join(["question,A,B,answer", *rows]))
    (path / "task.yaml").write_text(TASK)
    orchestrator(*arguments("run"), "--repeats", "3", folder=path)
    return path


def arguments(run: str) -> list[str]:
    decoding = ["--generation", "temperature=1"]
    return ["eval", "--task", "task.yaml", "--model", "demo:hash", *decoding, "--run", run]


def metric_options(*metrics: str) -> list[str]:
    return [word for metric in metrics for word in ("--metric", metric)]


def metrics_of(run: Path) -> dict[str, dict[str, Any]]:
    results = json.loads((run / "results.json").read_bytes())
    return {metric["name"]: metric for metric in results["tasks"]["task"]["metrics"]}


def test_they_are_computed_beside_the_own_ones(folder: Path) -> None:
    shown = orchestrator(*arguments("whole"), "--repeats", "3", *metric_options(*METRICS), folder=folder)
    metrics, task_metrics = metrics_of(folder / "whole"), metrics_of(folder / "run")
    assert list(metrics) == [*task_metrics, "pass at 2", "pass at 3 all", "avg at 3", "consistency", "abstention risk"]
    assert {name: metrics[name] for name in task_metrics} == task_metrics, (
        "the metrics of the task are what they are without"
    )
    right = [0] * ROWS
    for line in map(json.loads, (folder / "whole" / "verdicts.jsonl").open()):
        right[int(line["key"].split("/")[1].split("#")[0]) - 1] += int(line["score"])
    assert len(set(right)) > 2
    assert metrics["pass at 2"]["value"] == pytest.approx(fmean(1 - comb(3 - c, 2) / comb(3, 2) for c in right))
    assert metrics["pass at 3 all"]["value"] == pytest.approx(fmean(c == 3 for c in right))
    assert metrics["avg at 3"]["value"] == pytest.approx(fmean(c / 3 for c in right))
    assert metrics["abstention risk"]["value"] == pytest.approx(1 - fmean(c / 3 for c in right))
    for name in metrics.keys() - task_metrics.keys():
        assert "interval" in metrics[name] or metrics[name]["details"]["no_interval"], name
        assert name in shown
    gate = "pass at 2>=1%,avg at 3<=99%"
    assert "pass" in orchestrator("compare", "whole", "--gate", gate, folder=folder)


def test_a_run_that_is_scored_again_has_the_same(folder: Path) -> None:
    task_metrics = metrics_of(folder / "run")
    for _ in range(2):
        orchestrator("score", "run", *metric_options(*METRICS), folder=folder)
        metrics = metrics_of(folder / "run")
        assert metrics["pass at 2"] == metrics_of(folder / "whole")["pass at 2"]
        assert list(metrics)[: len(task_metrics)] == list(task_metrics)
        assert len(metrics) == len(task_metrics) + 5
    orchestrator("score", "run", folder=folder)
    assert metrics_of(folder / "run") == metrics, "what was asked for stays"


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            ("pass_at,k=4",),
            "--metric pass_at,k=4 needs 4 repeats of a sample, and this run has 3: run with --repeats 4",
        ),
        (("avg_at,k=9",), "needs 9 repeats of a sample, and this run has 3: run with --repeats 9, or give k=3 or less"),
        (("pass_at,k=0",), "parameter 'k' is 0.0: give 1 to 10000"),
        (("pass_at,kk=2",), "metric 'pass_at' has no parameter 'kk'; known: k, all"),
        (("passat",), "there is no metric 'passat'; known: abstention, accuracy"),
        ((",k=2",), "--metric ,k=2: give NAME or NAME,PARAMETER=VALUE,..., for example pass_at,k=4"),
        (("pass_at,k=",), "--metric pass_at,k=: give NAME or NAME,PARAMETER=VALUE"),
        (("pass_at,2",), "--metric pass_at,2: give NAME"),
        (("accuracy", "accuracy"), "--metric accuracy: 'accuracy' is there already"),
        (("rate",), "metric 'rate' needs params.outcome or params.reason"),
    ],
)
def test_what_cannot_be_computed_is_refused_before_anything_is_asked(
    folder: Path, names: tuple[str, ...], says: str
) -> None:
    before = (folder / "run" / "results.json").read_bytes(), (folder / "run" / "manifest.json").read_bytes()
    for command in ([*arguments("refused"), "--repeats", "3"], ["score", "run"]):
        error = orchestrator(*command, *metric_options(*names), folder=folder, code=2)
        assert error.startswith("Error: ")
        assert says in error
    assert not (folder / "refused").exists()
    assert before == ((folder / "run" / "results.json").read_bytes(), (folder / "run" / "manifest.json").read_bytes())


@pytest.mark.parametrize("metric", ["consistency", "avg_at", "instability", "pass_at,k=2"])
def test_metrics_of_repeats_refuse_a_run_without(folder: Path, metric: str) -> None:
    error = orchestrator(*arguments("single"), *metric_options(metric), folder=folder, code=2)
    assert f"--metric {metric} needs 2 repeats of a sample, and this run has 1: run with --repeats 2" in error
    assert not (folder / "single").exists()


def test_a_list_and_a_part_are_parameters(folder: Path) -> None:
    options = metric_options('accuracy,facets=["instruction","size"],level=0.9', "pass_at,k=1")
    orchestrator("score", "run", *options, folder=folder)
    metrics = metrics_of(folder / "run")
    (name,) = (name for name in metrics if name.startswith("accuracy "))
    assert metrics[name]["interval"]["level"] == 0.9
    assert not set(name) & set("[]<>=/,")


def test_a_name_of_the_task_is_not_taken(folder: Path) -> None:
    (folder / "other.yaml").write_text(f"{TASK}metrics:\n- {{name: consistency, metric: accuracy}}\n")
    command = ("eval", "--task", "other.yaml", "--repeats", "2", "--run", "taken")
    error = orchestrator(*command, *metric_options("consistency"), folder=folder, code=2)
    assert "--metric consistency: other has a result 'consistency' of its own (accuracy): give a parameter" in error
