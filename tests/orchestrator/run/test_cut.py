"""Answers that the output limit ended: every place that counts them says the same number."""

from __future__ import annotations

import asyncio
import csv
import io
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from click.testing import CliRunner, Result
from helpers.engine_cluster import Server
from helpers.model_serving import serve
from rich.console import Console

from lyncean.scorer.v1 import scorer_pb2 as scorer
from model_server.kit import Model, Output, Request
from model_server.kit.backend import KitBackend
from model_server.metrics import Metrics
from orchestrator.api import evaluate
from orchestrator.cli import main
from orchestrator.report.live.followed import Followed
from orchestrator.report.terminal import print_results
from orchestrator.run.cut_answers import notes
from orchestrator.run_folder.reader import open_run
from scorer.registry import Registry
from scorer.rule import Rule, unparsed
from scorer.scoring import Scorer

TASK = """data: rows.csv
id: id
question: question
options: [A, B]
answer: answer
decoding: {max_output_tokens: 200}
"""
ROWS, CUT = 40, 14
KEYS = {f"rows/{row}" for row in range(CUT)}


class Long(Model):
    """Thinks in so many words as the row asks for, then answers rightly: 14 of 40 rows pass 20 words."""

    name = "long"
    answer_choices = reasoning = True
    limit = 0

    def generate(self, request: Request) -> str | Output:
        row = int(request.text.split()[1])
        letter = "AB"[row % 2]
        if request.config.response_format.choices.texts:
            return letter
        if self.limit:  # the server's own, of which a request knows nothing
            request.config.max_output_tokens = self.limit
        words = " ".join(["hmm"] * (30 if row < CUT else 5))
        aloud = f"The answer is {letter}."
        return Output(aloud, reasoning=words) if row % 3 == 0 else f"{words}\n{aloud}"


class Runs(NamedTuple):
    """A run without a limit that is reached, one with a limit, and one of a server with a limit of its own."""

    whole: Path
    cut: Path
    server: Path
    held: Path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, shared_scorer: Server) -> Runs:
    folder = tmp_path_factory.mktemp("cut")
    lines = [f"{row},row {row} ?,cat,dog,{'AB'[row % 2]}" for row in range(ROWS)]
    (folder / "rows.csv").write_text("\n".join(["id,question,A,B,answer", *lines]))
    (folder / "rows.yaml").write_text(TASK)

    async def made() -> Runs:
        async def run(name: str, **more: Any) -> Path:
            given = {"endpoint": f"127.0.0.1:{server.port}", "scorer": shared_scorer.address, "run": folder / name}
            await asyncio.to_thread(lambda: evaluate(str(folder / "rows.yaml"), **given, **more))
            return folder / name

        model = Long()
        async with serve(KitBackend(model, Metrics())) as server:
            whole, cut = await run("whole"), await run("cut", generation="max_output_tokens=20")
            held = await run("held", answer="constrained", generation="max_output_tokens=1")
            model.limit = 20
            return Runs(whole, cut, await run("server"), held)

    return asyncio.run(made())


def command(*words: object) -> Result:
    return CliRunner().invoke(main, [*map(str, words)], catch_exceptions=False)


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((folder / "results.json").read_bytes())
    return found


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
    for folder, there in ((runs.cut, True), (runs.whole, False)):
        shown = Console(record=True, width=300, file=io.StringIO())
        print_results(folder, shown)
        assert (SENTENCE in shown.export_text()) is there
        page = (folder / "report.html").read_text()
        assert (SENTENCE in page) is there
        assert ("100.0 of 26 not cut" in page) is there
        assert Followed(folder, "run").state()["cut"] == (CUT if there else 0)


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
    found = results(runs.whole)
    del found["tasks"]["rows"]["cut"]
    (old / "results.json").write_bytes(orjson.dumps(found))
    done = command("compare", old, "--gate", "cut<=1%")
    assert (done.exit_code, f"orchestrator score {old} counts them" in " ".join(done.output.split())) == (2, True)


@pytest.mark.parametrize("other", ["cut", "server"])
def test_explain_puts_it_down_to_the_limit(runs: Runs, other: str) -> None:
    done = command("explain", runs.whole, getattr(runs, other), "--json")
    (task,) = orjson.loads(done.output)["tasks"]
    assert [(each["cause"], each["items"]) for each in task["causes"]] == [("limit", CUT)]


def test_exports_have_the_count(runs: Runs, tmp_path: Path) -> None:
    command("export", runs.cut, "--format", "csv", "--output", tmp_path / "items.csv")
    with (tmp_path / "items.csv").open() as file:
        assert {row["key"] for row in csv.DictReader(file) if row["cut"] == "True"} == KEYS
    for kind in ("md", "latex", "model-card"):
        text = command("export", runs.cut, "--format", kind).output.replace("\\", "")
        assert "14 of 40 items (35.0%) cut at the output limit" in text, kind
    assert "cut at the output limit" not in command("export", runs.whole, "--format", "md").output


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
    assert [each.task for each in notes({name: tasks[name] for name in ("t0", "t1", "t2")})] == ["t1", "t2"]
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
