"""`--share` and `--items`, end to end: the same samples however the run goes, and an estimate of all beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Cluster, Server, wait_for

from orchestrator.compare.scores import cautions, read
from orchestrator.errors import ConfigError
from orchestrator.run.part import item_scores, part_of
from orchestrator.run.part.share import RandomShare
from orchestrator.run.plan import make
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.reader import open_run

ROWS = ("--limit", "120")
SHARE = (*ROWS, "--share", "0.5")


@pytest.fixture(scope="module")
def full(shared_cluster: Cluster, half: Server, shared_scorer: Server) -> float:
    """The accuracy of a run of all rows, whose scores lie in items.parquet."""
    shared_cluster.eval("full", [half], shared_scorer, *ROWS)
    shared_cluster.orchestrator("export", "full", "--format", "items", "--output", "items.parquet")
    return float(
        next(metric["value"] for metric in task_of(shared_cluster, "full")["metrics"] if metric["name"] == "accuracy")
    )


def task_of(shared_cluster: Cluster, run: str) -> dict[str, Any]:
    task: dict[str, Any] = json.loads(shared_cluster.results(run))["tasks"]["toy"]
    return task


def sampled_of(shared_cluster: Cluster, run: str) -> dict[str, Any]:
    """The numbers of the run's only note."""
    [note] = json.loads(shared_cluster.results(run))["notes"]
    assert (note["kind"], note["task"]) == ("sampled", "toy")
    details: dict[str, Any] = note["details"]
    return details


def test_a_share_estimates_all_and_says_so_everywhere(
    shared_cluster: Cluster, half: Server, shared_scorer: Server, full: float
) -> None:
    text = " ".join(shared_cluster.eval("plain", [half], shared_scorer, *SHARE).split())
    assert "toy asked a random 60 of 120 samples (30 of 60 groups); accuracy of all 120 is estimated as" in text
    task = task_of(shared_cluster, "plain")
    sampled = sampled_of(shared_cluster, "plain")
    assert task["counts"]["planned"] == shared_cluster.answered("plain") == sampled["samples"] == 60
    assert sampled["low"] <= full <= sampled["high"]
    accuracy = next(metric for metric in task["metrics"] if metric["name"] == "accuracy" and not metric["labels"])
    assert sampled["value"] == pytest.approx(accuracy["value"]), "the plain metric stays what it is"
    assert accuracy["interval"]["method"] == "wilson over clusters"
    assert "with_items" not in sampled
    page = (shared_cluster.folder / "plain" / "report.html").read_text()
    assert "asked a random 60 of 120 samples" in page
    both = [read(open_run(shared_cluster.folder / name)) for name in ("full", "plain")]
    text = " ".join(caution.text for caution in cautions(*both))
    assert "plain: toy asked a random 60 of 120 samples" in text
    assert "60 items in both, 60 only in full" in text
    refused = shared_cluster.eval(
        "x", [half], shared_scorer, *ROWS, "--until", "decided", "--against", "plain", code=2
    )  # fmt: skip
    assert "toy asked a random 60 of 120 samples" in refused


@pytest.mark.usefixtures("full")
def test_scores_of_other_runs_sharpen_it_the_same_at_any_concurrency_and_after_a_kill(
    shared_cluster: Cluster, half: Server, shared_scorer: Server
) -> None:
    options = (*SHARE, "--items", "items.parquet")
    shared_cluster.eval("one", [half], shared_scorer, *options, "--concurrency", "1")
    sampled = sampled_of(shared_cluster, "one")
    sharper = sampled["with_items"]
    assert sharper["runs"] == 1
    assert sharper["explained"] > 0.9, "the same model answers as it did"
    assert sharper["high"] - sharper["low"] < sampled["high"] - sampled["low"]
    manifest = json.loads((shared_cluster.folder / "one" / "manifest.json").read_text())
    table = item_scores.read(shared_cluster.folder / "items.parquet")
    assert manifest["identity"]["items"]["sha256"] == sharper["sha256"] == table.sha256

    process = shared_cluster.start(*shared_cluster.words("killed", [half], shared_scorer, *options))
    wait_for(lambda: shared_cluster.answered("killed") >= 8)
    process.kill()
    process.communicate()
    shared_cluster.eval("killed", [half], shared_scorer, *options)
    assert shared_cluster.results("killed") == shared_cluster.results("one")
    assert shared_cluster.answered("killed") <= 60 + 8
    shared_cluster.orchestrator("score", "killed", "--scorer", shared_scorer.address)
    assert shared_cluster.results("killed") == shared_cluster.results("one")

    output = shared_cluster.eval("killed", [half], shared_scorer, *ROWS, "--share", "0.4", code=2)
    assert "share is 0.5 there and 0.4 here" in output
    (shared_cluster.folder / "killed" / "share.json").write_text("{")
    assert "share.json is damaged" in shared_cluster.orchestrator(
        "score", "killed", "--scorer", shared_scorer.address, code=2
    )


def shares(**options: Any) -> RandomShare:
    part = part_of(make(RunRequest("marvel", synthetic=True, limit=20, **options)))
    assert isinstance(part, RandomShare)
    return part


def test_whole_groups_with_their_repeats_are_drawn_from_the_seed() -> None:
    keys = [sample.key for sample in shares(share=0.25, repeats=2).samples()]
    puzzles = {key.partition(":")[0].removesuffix("#1") for key in keys}
    assert len(keys) == len(set(keys)) == 5 * 5 * 2
    assert len(puzzles) == 5
    again = [sample.key for sample in shares(share=0.25).samples()]
    assert again == [key for key in keys if "#" not in key]
    assert [sample.key for sample in shares(share=0.25, seed=1).samples()] != again
    # A larger share of the same seed holds the smaller one.
    assert set(again) < {sample.key for sample in shares(share=0.5).samples()}
    assert shares(share=1.0).totals["marvel"]["samples"] == 100


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"items": "x.parquet"}, "give --share, or leave it out"),
        ({"share": 0.5, "until": "width<=4"}, "leave one out"),
        ({"share": 0.5, "shard": "0/2"}, "--shard runs a part of them"),
        ({"share": 0.5, "items": "nowhere.parquet"}, "nowhere.parquet: there is no such file"),
        ({"share": 0.5, "items": __file__}, "is not a table of item scores: orchestrator export"),
    ],
)
def test_what_cannot_be_honest_is_refused_in_a_line(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        shares(**options)


@pytest.mark.usefixtures("full")
def test_a_table_is_of_complete_runs_of_the_same_data(shared_cluster: Cluster, tmp_path: Path) -> None:
    run = open_run(shared_cluster.folder / "full")
    with pytest.raises(ConfigError, match="two of the runs are called full"):
        item_scores.write([run, run], tmp_path / "x")
    table = item_scores.read(shared_cluster.folder / "items.parquet")
    assert table.runs == ["full"]
    assert len(table.scores) == 120
    with pytest.raises(ConfigError, match="has no item of marvel"):
        shares(share=0.5, items=shared_cluster.folder / "items.parquet")


def test_notes_of_several_tasks_are_in_the_order_of_the_results(shared_cluster: Cluster, shared_scorer: Server) -> None:
    tasks = ("--task", "vstar_bench", "--task", "marvel", "--synthetic", "--limit", "6")
    options = ("--share", "0.5", "--model", "demo:hash", "--scorer", shared_scorer.address)
    shared_cluster.orchestrator("eval", *tasks, *options, "--run", "both")
    before = shared_cluster.results("both")
    assert [note["task"] for note in json.loads(before)["notes"]] == list(json.loads(before)["tasks"])
    shared_cluster.orchestrator("score", "both", "--scorer", shared_scorer.address)
    assert shared_cluster.results("both") == before
