"""Runs of every benchmark, stored before the house was rebuilt: every metric, interval and outcome is still the same.

The archive holds runs of all kinds: both methods, repeats, chained turns, dialogues, judges, blind images, every
outcome, a run killed and resumed, shards and their merger, and answers scored again by the reference's rules.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.engine_cluster import Server
from helpers.old_run import convert

from lyncean.rpc import PLAIN
from orchestrator.cli import main
from orchestrator.engine import parse_endpoints
from orchestrator.report.problems import problems
from orchestrator.run import rescore, results
from orchestrator.run_folder import manifest as run_manifest
from orchestrator.run_folder.reader import open_run

ARCHIVE = Path(__file__).parents[2] / "fixtures" / "stored_runs.tar.xz"
with tarfile.open(ARCHIVE) as _archive:
    _names = _archive.getnames()
RUNS = sorted(name.removesuffix("/results.json") for name in _names if name.endswith("/results.json"))
PAIRS = sorted(Path(name).stem for name in _names if name.startswith("compare/") and name.endswith(".json"))
UNEQUAL = "vstar_repeats--vstar_noisy"
"""Three answers to each question and one: since these were stored the mean of the three is compared."""
BY_VERDICTS = {"judged_open", "judged_panel", "voila_judged", "all_outcomes", "resumed_after_failures"}
"""Runs whose answers a judge scored: it is not here to be asked again."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _taken_out(tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs, which no test scores again."""
    return _taken_out(tmp_path_factory.mktemp("untouched"))


def _taken_out(folder: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="tar")
    for name in RUNS:
        convert(folder / name)
    return folder


def test_the_archive_holds_every_benchmark_and_every_outcome(stored: Path) -> None:
    tasks: dict[str, Any] = {}
    for name in RUNS:
        tasks.update(json.loads((stored / name / "results.json").read_text())["tasks"])
    prefixes = ("vstar_bench", "VisualPuzzles", "marvel", "voila_wd", "voila_nd", "reform_")
    assert len(RUNS) >= 45
    assert all(any(task.startswith(prefix) for task in tasks) for prefix in prefixes)
    counts = json.loads((stored / "all_outcomes" / "results.json").read_text())["tasks"]["marvel"]["counts"]
    assert all(counts.values())


# METEOR is a program in Java, which takes half a minute to score a run.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.weekly) if "captions" in name else name for name in RUNS]
)
def test_the_results_are_what_they_were(name: str, stored: Path, shared_scorer: Server) -> None:
    run = stored / name
    before = json.loads((run / "results.json").read_text())
    (run / "results.json").unlink()

    async def again() -> Any:
        from orchestrator.run.servers import connect_scorer

        async with connect_scorer(parse_endpoints([shared_scorer.address])[0], PLAIN, 60.0) as (client, rules):
            manifest = run_manifest.read(run)
            # The folder of the reference's reading is made from the run beside it.
            if name in BY_VERDICTS or manifest.get("scored_by"):
                await results.write(run, manifest, client)
            else:
                await rescore.rescore(run, client, rules, parity=False)

    verdicts = _outcomes(run)
    asyncio.run(again())
    after = json.loads((run / "results.json").read_text())
    before["tasks"] = _with_interval_of_few(before["tasks"], after["tasks"])
    assert _without_later(after["tasks"]) == _without_later(before["tasks"])
    assert _outcomes(run) == verdicts


@pytest.mark.parametrize("name", RUNS)
def test_every_item_is_read(name: str, stored: Path) -> None:
    run = open_run(stored / name)
    counts = [task["counts"] for task in json.loads((stored / name / "results.json").read_text())["tasks"].values()]
    outcomes = [item.outcome for item in run if item.verdict]
    for outcome in ("scored", "unparsed", "refused", "rejected", "unjudged", "failed"):
        assert outcomes.count(outcome) == sum(count[outcome] for count in counts)
    assert len(outcomes) == sum(count["planned"] for count in counts)
    assert sum(problem.count for problem in problems(run)) == len(outcomes) - outcomes.count("scored")


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair != UNEQUAL])
def test_comparisons_are_what_they_were(pair: str, untouched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(untouched)
    done = CliRunner().invoke(main, ["compare", *pair.split("--"), "--json"], catch_exceptions=False)
    before = json.loads((untouched / "compare" / f"{pair}.json").read_text())
    # What the report prints is the same; an unrounded double may differ in its last digits.
    assert_alike(json.loads(done.stdout), before)


def test_unequal_repeats_are_compared_by_the_means_of_the_results(
    untouched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(untouched)
    done = CliRunner().invoke(main, ["compare", *UNEQUAL.split("--"), "--json"], catch_exceptions=False)
    (pair,) = json.loads(done.stdout)["comparisons"]
    (metric,) = pair["pairs"]
    row = json.loads((untouched / "vstar_repeats" / "results.json").read_text())["tasks"]["vstar_bench"]["metrics"][0]
    assert metric["first"] == pytest.approx(row["value"] / 100)
    assert (metric["items"], metric["second"]) == (15, 11 / 15)
    assert "vstar_bench: 15 questions in both, 0 only in vstar_repeats, 25 only in vstar_noisy" in pair["warnings"]


def _without_later(data: Any) -> Any:
    """Leaves out what results have had since: detectable changes, reading, cuts, chance, reasons.

    Two metrics have had an interval since.
    """
    if isinstance(data, dict):
        later = ("minimum_detectable", "standard_error", "reading", "cut", "doubts", "chance", "no_interval")
        if data.get("metric") in ("multi_round", "reform_instability"):
            later += ("interval",)
        return {name: _without_later(value) for name, value in data.items() if not name.startswith(later)}
    return [_without_later(element) for element in data] if isinstance(data, list) else data


def _with_interval_of_few(before: Any, after: Any) -> Any:
    """Takes over intervals of few items' partial credit: they were Student's, and are Gaffke's."""
    if isinstance(before, list):
        return [_with_interval_of_few(*pair) for pair in zip(before, after, strict=True)]
    if not isinstance(before, dict) or not isinstance(after, dict):
        return before
    if after.get("method", "").startswith("Gaffke over ") and before["method"].startswith("t over "):
        assert 0 < after["low"] < after["high"] < 100
        return after
    return {name: _with_interval_of_few(value, after.get(name)) for name, value in before.items()}


def _outcomes(run: Path) -> dict[str, str]:
    lines = map(json.loads, (run / "verdicts.jsonl").read_text().splitlines())
    return {line["key"]: line["outcome"] for line in lines}


def assert_alike(after: Any, before: Any) -> None:
    """Compares numbers to a relative 1e-12, words exactly, and of sentences only that they are there.

    When the runs were stored, every metric was tested and Holm's correction was over them all, and models that differ
    on few items had narrower ranks.
    """
    if isinstance(before, dict) and "rank" in before:
        assert after["best"] <= before["best"] <= before["rank"] <= before["worst"] <= after["worst"]
        before = {name: value for name, value in before.items() if name not in ("best", "worst")}
        after = {name: value for name, value in after.items() if name not in ("best", "worst")}
    if isinstance(before, dict):
        assert after.keys() - {"overall", "detectable", "fall", "verdict"} == before.keys()
        untested = {"adjusted"} | ({"p", "test"} if "p" in after and after["p"] is None else set())
        for name, value in before.items():
            if name not in untested:
                assert_alike(after[name], value)
    elif isinstance(before, list):
        assert len(after) == len(before)
        for one, other in zip(after, before, strict=True):
            assert_alike(one, other)
    elif isinstance(before, float):
        assert after == pytest.approx(before, rel=1e-12, abs=1e-15)
    else:
        assert after == before or (" " in before and " " in after)
