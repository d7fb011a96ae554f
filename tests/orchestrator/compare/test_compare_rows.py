"""Items of two tasks of one benchmark are paired by row: the contrasts that papers are about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result
from helpers.report_runs import Writer

from orchestrator.cli import main
from orchestrator.compare import leaderboard
from orchestrator.compare.leaderboard import Source
from orchestrator.compare.result import compare
from orchestrator.compare.rows import paired_tasks
from orchestrator.report import leaderboard as pages
from orchestrator.suite import terminal

DATA = {"origin": "puzzles", "sha256": "ab" * 32}
CATEGORIES = ("algorithmic", "spatial")


def run(path: Path, task: str, right: set[int], *, count: int = 12, turn: str = "", **identity: Any) -> Path:
    """A run of VisualPuzzles that has some rows right."""
    writer = Writer(path, tasks=[task], data={task: DATA}, **identity)
    for number in range(count):
        category = CATEGORIES[number % 2]
        key = f"{task}/{category}/{number}" if "visual_cot" in task or task == "VisualPuzzles" else f"{task}/{number}"
        parts = [{"text": f"Puzzle {number}. {task}"}]
        score = float(number in right)
        writer.item(
            key + turn,
            parts=parts,
            answer=f"{task} {number}",
            score=score,
            targets=["A"],
            labels={"category": category},
        )
    return writer.close()


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in arguments])


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Direct answers, 4 of 12 right; step by step, 3 of these and 5 others."""
    direct = run(tmp_path / "direct", "VisualPuzzles_direct", {0, 1, 2, 3})
    return direct, run(tmp_path / "cot", "VisualPuzzles_cot", {0, 1, 2, 4, 5, 6, 7, 8})


def test_direct_answers_and_chain_of_thought_are_compared(two: tuple[Path, Path]) -> None:
    (pairing,) = compare(two).pairings
    (pair,) = pairing.pairs
    assert str(pair.step) == "VisualPuzzles_direct → VisualPuzzles_cot"
    assert (pair.items, pair.gained, pair.lost) == (12, 5, 1)
    assert (pair.first, pair.second) == (4 / 12, 8 / 12)
    cautions = {caution.what: caution.text for caution in pairing.cautions}
    assert (
        cautions["task"]
        == "VisualPuzzles_direct and VisualPuzzles_cot are other tasks, and their items are paired by row"
    )
    assert cautions["prompt or images"].endswith("prompt or images differ in 12 of 12 items")
    assert not {"data", "tasks", "items"} & cautions.keys()
    shown = call("compare", *two)
    assert "VisualPuzzles_direct →" in shown.stdout
    assert "of 12 items 5 better, 1 worse" in shown.stdout


def test_visual_cot_has_the_rows_of_its_answers(tmp_path: Path) -> None:
    direct = run(tmp_path / "direct", "VisualPuzzles", {0})
    drawn = run(tmp_path / "drawn", "VisualPuzzles_visual_cot", {0, 1}, turn=":answer")
    (pairing,) = compare([direct, drawn]).pairings
    assert [(pair.items, pair.gained, pair.lost) for pair in pairing.pairs] == [(12, 1, 0)]


def test_rows_of_another_category_are_other_rows(tmp_path: Path) -> None:
    """The tasks by category number their puzzles anew."""
    one = run(tmp_path / "one", "VisualPuzzles_algorithmic", {0}, count=1)
    other = run(tmp_path / "other", "VisualPuzzles_cot", {0})
    (pairing,) = compare([one, other]).pairings
    assert [pair.items for pair in pairing.pairs] == [1]


def marvel(path: Path, task: str, score: float, **labels: str) -> Path:
    writer = Writer(path, tasks=[task], data={task: DATA}, settings={task: {"letters": False, "shots": len(labels)}})
    for number in range(8):
        common: dict[str, Any] = {"group": str(number), "parts": [{"text": f"{task} {number}"}]}
        if task != "marvel":
            item_labels = {"question": "avr", "kind": "avr", **labels}
            writer.item(f"{task}/{number}", answer="1", score=score, labels=item_labels, **common)
            if labels:
                item_labels["input"] = "plain"
                writer.item(f"{task}/{number}:plain", answer="1", score=0.0, labels=item_labels, **common)
            continue
        for question in ("avr", "fine"):
            item_labels = {"question": question, "kind": question}
            key = f"marvel/{number}:{question}"
            writer.item(key, answer="1", score=float(number < 4), labels=item_labels, sample=key, **common)
    return writer.close()


def test_zero_shot_and_few_shot_share_the_puzzles_questions(tmp_path: Path) -> None:
    zero, few = marvel(tmp_path / "zero", "marvel", 0.5), marvel(tmp_path / "few", "marvel_few_shot", 1.0)
    (pairing,) = compare([zero, few]).pairings
    assert [(pair.items, pair.gained, pair.lost) for pair in pairing.pairs] == [(8, 4, 0)]
    cautions = [caution.text for caution in pairing.cautions]
    assert "marvel → marvel_few_shot: 8 items in both, 8 only in zero, 0 only in few" in cautions
    described = marvel(tmp_path / "told", "marvel_described", 1.0, input="described")
    (pairing,) = compare([zero, described]).pairings
    assert [(pair.items, pair.gained) for pair in pairing.pairs] == [(8, 4)]


def test_explain_puts_the_difference_down_to_the_prompt(two: tuple[Path, Path]) -> None:
    explained = json.loads(call("explain", *two, "--json").stdout)
    (task,) = explained["tasks"]
    assert task["task"] == "VisualPuzzles_direct → VisualPuzzles_cot"
    assert (task["items"], task["only_first"], task["only_second"]) == (12, 0, 0)
    assert task["difference"] == pytest.approx(33.34, abs=0.02)
    assert [cause["cause"] for cause in task["causes"]] == ["prompt"]
    assert any("paired by row" in note for note in explained["notes"])
    refused = call("explain", *two, "--endpoint", "127.0.0.1:1")
    assert refused.exit_code == 2
    assert "VisualPuzzles_direct → VisualPuzzles_cot are two" in refused.stderr


@pytest.mark.parametrize("command", ["compare", "explain"])
def test_by_key_they_have_nothing_in_common(two: tuple[Path, Path], command: str) -> None:
    refused = call(command, *two, "--match", "key")
    assert refused.exit_code == 2
    assert "in common" in refused.stderr
    assert refused.stderr.endswith("; --match row pairs them by row\n")


def test_which_tasks_are_paired() -> None:
    direct, cot, wd, nd = "VisualPuzzles_direct", "VisualPuzzles_cot", "voila_wd", "voila_nd"
    assert paired_tasks([direct], [cot]) == [(direct, cot)]
    assert paired_tasks([direct, cot], [direct, cot]) == []
    assert paired_tasks([direct, cot], [direct, cot], "row") == [(direct, cot), (cot, direct)]
    assert paired_tasks([direct], [cot], "key") == []
    assert paired_tasks([direct, "marvel"], [cot, "vstar_bench", "animals"]) == [(direct, cot)]
    assert paired_tasks(["lmms:mme"], ["lmms:pope"]) == []
    assert paired_tasks([wd], [nd]) == [(wd, nd)]


def test_rows_with_other_questions_are_refused(tmp_path: Path) -> None:
    """Both tasks of VOILA number their questions from one, and ask other ones."""
    runs = []
    for task, subject in (("voila_wd", "cats"), ("voila_nd", "dogs")):
        writer = Writer(tmp_path / task, tasks=[task], data={task: {"origin": task, "sha256": subject}})
        for number in range(6):
            writer.item(f"{task}/{number}:step3", parts=[{"text": subject}], answer="x", score=1.0, targets=[subject])
        runs.append(writer.close())
    refused = call("compare", *runs)
    assert refused.exit_code == 2
    assert "voila_wd → voila_nd: 6 of 6 items have the same key" in refused.stderr


def test_a_suite_s_leaderboard_has_the_contrast_of_each_model(tmp_path: Path) -> None:
    sources = []
    for model, gain in (("small", 5), ("large", 8)):
        for task, right in (("VisualPuzzles_direct", range(3)), ("VisualPuzzles_cot", range(3 + gain))):
            path = run(tmp_path / f"{model}-{task}", task, set(right))
            sources.append(Source(model, "", [task], path))
    board = leaderboard.make("night", sources)
    (table,) = board.tables
    assert [(one.model, one.tasks, one.pair.gained) for one in table.contrasts] == [
        ("small", ("VisualPuzzles_direct", "VisualPuzzles_cot"), 5),
        ("large", ("VisualPuzzles_direct", "VisualPuzzles_cot"), 8),
    ]
    assert table.contrasts[1].pair.adjusted == pytest.approx(2 * 2 / 2**8)
    assert board.as_json()["tables"][0]["contrasts"][0]["difference"] == pytest.approx(5 / 12)
    pages.save(board, tmp_path)
    assert "VisualPuzzles_direct → VisualPuzzles_cot" in (tmp_path / "leaderboard.md").read_text()
    assert "The same rows in two tasks" in (tmp_path / "leaderboard.html").read_text()
    from orchestrator.run.console import Terminal

    console = Terminal(markup=False, width=160)
    with console.capture() as shown:
        terminal.show(board, console)
    assert "the same rows in two tasks" in shown.get()


def test_view_compares_them(two: tuple[Path, Path]) -> None:
    import threading

    from orchestrator.report.live.server import serve

    server = serve(two[0].parent, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/compare/?run=direct&run=cot"
        with urlopen(address) as answer:
            page = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
    assert "VisualPuzzles_direct → VisualPuzzles_cot" in page
    assert "paired by row" in page
