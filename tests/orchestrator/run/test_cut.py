"""Answers that the output limit ended: every place that counts them says the same number."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result
from helpers import cut_runs
from helpers.cut_runs import CUT, KEYS, Runs
from helpers.engine_cluster import Server
from rich.console import Console

from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.cli import main
from orchestrator.report.live.followed import Followed
from orchestrator.report.terminal import print_results
from orchestrator.run.cut_answers import notes
from orchestrator.run_folder.reader import open_run
from scorer.registry import Registry
from scorer.rule import Rule, unparsed
from scorer.scoring import Scorer


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, shared_scorer: Server) -> Runs:
    return cut_runs.make(tmp_path_factory.mktemp("cut"), shared_scorer.address)


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


def results(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads((folder / "results.json").read_bytes())
    return loaded


def test_lines_and_items_say_which_answers_are_cut(runs: Runs) -> None:
    for folder, wanted in ((runs.whole, set()), (runs.cut, KEYS), (runs.server, KEYS), (runs.held, set())):
        lines = map(orjson.loads, (folder / "verdicts.jsonl").read_bytes().splitlines())
        assert {line["key"] for line in lines if line.get("cut")} == wanted, folder.name
        assert {item.key for item in open_run(folder) if item.cut} == wanted


def test_results_have_the_count_and_what_it_leaves_open(runs: Runs) -> None:
    """In reasoning or in words, with a limit of the request's or of the server's: one count."""
    for folder in (runs.cut, runs.server):
        task = results(folder)["tasks"]["rows"]
        assert task["cut"] == {"items": 14, "share": 0.35}
        (accuracy,) = [metric for metric in task["metrics"] if metric["metric"] == "accuracy"]
        assert accuracy["value"] == 65.0
        assert accuracy["cut"] == {"whole": 100.0, "denominator": 26, "low": 65.0, "high": 100.0}
    task = results(runs.whole)["tasks"]["rows"]
    assert task["cut"] == {"items": 0, "share": 0.0}
    assert not any("cut" in metric for metric in task["metrics"])
    assert "notes" not in results(runs.whole)


SENTENCE = (
    "rows: the output limit cut the answers of 14 of 40 items (35.0%); accuracy is 100.0 of the 26 others, and without "
    "a limit between 65.0 and 100.0"
)


def test_terminal_and_report_say_so(runs: Runs) -> None:
    for folder, marked in ((runs.cut, True), (runs.whole, False)):
        shown = Console(record=True, width=300, file=io.StringIO())
        print_results(folder, shown)
        assert (SENTENCE in shown.export_text()) is marked
        page = (folder / "report.html").read_text()
        assert (SENTENCE in page) is marked
        assert ("100.0 of 26 not cut" in page) is marked
        assert Followed(folder, "run").state()["cut"] == (CUT if marked else 0)


def test_a_comparison_warns_and_a_gate_counts(runs: Runs) -> None:
    done = command("compare", runs.whole, runs.cut, "--json")
    assert "the output limit cut the answers of 14 of 40 items (35.0%)" in done.output
    assert "14 cut answers of rows" in " ".join(command("compare", runs.whole, runs.cut).output.split())
    assert "cut answers" not in command("compare", runs.whole, runs.held).output
    assert command("compare", runs.cut, "--gate", "cut<=35%").exit_code == 0
    failed = command("compare", runs.cut, "--gate", "cut<=1%")
    assert (failed.exit_code, "14 of 40 cut" in failed.output) == (4, True)


def test_a_gate_says_where_cut_answers_were_not_counted(runs: Runs, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(runs.whole, old)
    edited = results(runs.whole)
    del edited["tasks"]["rows"]["cut"]
    (old / "results.json").write_bytes(orjson.dumps(edited))
    done = command("compare", old, "--gate", "cut<=1%")
    assert (done.exit_code, f"orchestrator score {old} counts them" in " ".join(done.output.split())) == (2, True)


@pytest.mark.parametrize("other", ["cut", "server"])
def test_explain_puts_it_down_to_the_limit(runs: Runs, other: str) -> None:
    done = command("explain", runs.whole, getattr(runs, other), "--json")
    (task,) = orjson.loads(done.output)["tasks"]
    assert [(entry["cause"], entry["items"]) for entry in task["causes"]] == [("limit", CUT)]


def test_scoring_again_keeps_the_count(runs: Runs, shared_scorer: Server) -> None:
    before = (runs.cut / "results.json").read_bytes()
    command("score", runs.cut, "--scorer", shared_scorer.address)
    assert (runs.cut / "results.json").read_bytes() == before


def test_many_tasks_are_listed_in_one_note() -> None:
    tasks = {
        f"t{number}": {"counts": {"planned": 40}, "cut": {"items": number, "share": number / 40}, "metrics": []}
        for number in range(6)
    }
    (note,) = notes(tasks)
    assert note.sentence.startswith("the output limit cut the answers of 15 of 200 items (7.5%) of 5 tasks: t5 5 of 40")
    assert note.comparison["differs"] == "15 cut answers"
    assert [task_note.task for task_note in notes({name: tasks[name] for name in ("t0", "t1", "t2")})] == ["t1", "t2"]
    assert not notes({"old": {"counts": {"planned": 40}, "metrics": []}})


async def test_a_rule_is_told_that_the_answer_is_cut() -> None:
    seen: list[bool] = []

    def read(request: scorer.ScoreRequest) -> scorer.Verdict:
        seen.append(request.cut)
        return unparsed("no_choice")

    registry: Registry[Any] = Registry(
        "rule", {}, (Rule,), [Rule(name="seeing", description="Looks.", read=read, reads=("text",))]
    )
    scoring = Scorer(registry)
    for cut in (True, False):
        for text in ("It is", "<think>I see</think>It is"):
            await scoring.verdict(scorer.ScoreRequest(key="t/1", rule="seeing", text=text, cut=cut))
    assert seen == [True, True, False, False]
