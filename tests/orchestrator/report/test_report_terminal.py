"""The results table, wide and narrow."""

from __future__ import annotations

import io
import re
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from helpers.report_runs import Writer, marvel_run
from rich.console import Console

from orchestrator.cli.report import command
from orchestrator.report import terminal
from orchestrator.report.page import render
from orchestrator.report.problems import Problem
from orchestrator.report.terminal import print_results
from orchestrator.run.console import Terminal
from orchestrator.run_folder.lines import sealed
from orchestrator.run_folder.reader import open_run


def shown(run: Path, width: int, **options: object) -> str:
    out = io.StringIO()
    print_results(run, Console(file=out, width=width, **options))  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_it_fits(tmp_path: Path, width: int) -> None:
    text = shown(marvel_run(tmp_path / "run"), width)
    assert max(map(len, text.splitlines())) <= width
    assert "154 planned = 133 scored + 11 unparsed" in " ".join(text.split())
    assert "44.2" in text
    assert "[36.6, 52.0]" in text
    assert "154" in text


def test_wide_has_both_denominators_and_the_slices(tmp_path: Path) -> None:
    text = shown(marvel_run(tmp_path / "run"), 120)
    assert "answered" in text
    assert "144" in text
    assert "95% wilson" in text
    assert "by pattern" in text
    assert "by configuration" in text
    assert "by pattern" not in shown(tmp_path / "run", 60)


def test_colour_only_on_a_terminal(tmp_path: Path) -> None:
    run = marvel_run(tmp_path / "run")
    assert "\x1b[" not in shown(run, 100)
    assert "\x1b[" in shown(run, 100, force_terminal=True)


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    assert "no results yet" in shown(writer.close(complete=False), 80)


def test_markup_in_names_is_text(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", "[red]model[/red] [/nonsense]")
    writer.item("marvel/1", answer="1", score=1.0)
    assert "[red]model[/red] [/nonsense]" in shown(writer.close(), 100)


def test_nothing_of_a_message_is_cut_off_by_its_control_characters() -> None:
    out = io.StringIO()
    problem = Problem("failed", "unknown", 1, "x" * 40 + " \x1b[31m to the end")
    Terminal(file=out, width=80, markup=False).print(terminal._problem(problem))
    assert "to the end" in " ".join(out.getvalue().split())


def test_a_refused_image_is_found_by_its_item(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in (7, 8):
        error = {"code": "INVALID_ARGUMENT", "reason": "bad_image", "message": "image 1 cannot be decoded"}
        detail = {"reason": "bad_image", "detail": "image 1 cannot be decoded"}
        writer.item(f"marvel/{number}", outcome="rejected", error=error, verdict=detail)
    assert "2 rejected, bad_image: marvel/7: image 1 cannot be decoded" in shown(writer.close(), 100)


def test_command(tmp_path: Path) -> None:
    run = marvel_run(tmp_path / "run")
    result = CliRunner().invoke(command, [str(run), "--format", "terminal"])
    assert result.exit_code == 0
    assert "154 planned" in result.output


@pytest.mark.parametrize("width", [44, 60, 80, 120])
def test_many_tasks_are_one_table(tmp_path: Path, width: int) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(12):
        writer.item(f"reform_dataset_number_{number}/1", answer="A", score=float(number % 2))
    text = shown(writer.close(), width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("all samples") == 1
    assert text.count("[20.7, 100.0]") == 6
    assert "all tasks  12 planned = 12 scored" in text


def test_tasks_stand_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    tasks = ["vstar_bench", "marvel", "VisualPuzzles_direct"]
    writer = Writer(tmp_path / "run", tasks=tasks)
    for task in sorted(tasks):
        writer.item(f"{task}/1", answer="1", score=1.0)
    run = writer.close()
    assert [line.split()[0] for line in shown(run, 100).splitlines() if line.rstrip().endswith("  llava-tiny")] == tasks


def test_what_went_wrong_stands_beneath_with_its_reason(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("marvel/1", answer="1", score=1.0)
    broken = {"reason": "unreadable_image", "detail": "image a.png cannot be read:\nNo such file"}
    writer.item("marvel/2", outcome="rejected", error={"code": "", "reason": "", "message": ""}, verdict=broken)
    writer.item("marvel/3", outcome="failed", error={"code": "", "reason": "", "message": ""})
    run = writer.close()
    text = shown(run, 120)
    assert "1 rejected, unreadable_image: image a.png cannot be read: No such file\n" in text
    assert "\n  1 failed\n" in text
    # The last line of a key counts: the item was asked again, and an answer may speak of outcomes too.
    again = b'{"key":"marvel/3","outcome":"scored","score":1.0,"task":"marvel","labels":{"outcome":"scored"}}'
    (run / "verdicts.jsonl").write_bytes((run / "verdicts.jsonl").read_bytes() + sealed(again) + b"\n")
    results = orjson.loads((run / "results.json").read_bytes())
    results["tasks"]["marvel"]["counts"] |= {"scored": "2", "failed": "0"}
    (run / "results.json").write_bytes(orjson.dumps(results))
    assert "1 failed" not in shown(run, 120)


def test_of_many_reasons_the_most_frequent_stand_there(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(21):
        kind = 0 if number < 15 else number
        writer.item(f"marvel/{number}", answer="?", outcome="unparsed", score=0.0, verdict={"reason": f"reason_{kind}"})
    text = shown(writer.close(), 80)
    assert "  15 unparsed, reason_0\n  1 unparsed, reason_15\n" in text
    assert "and 2 more kinds: see the report" in text


def test_a_damaged_verdict_is_named(tmp_path: Path) -> None:
    run = marvel_run(tmp_path / "run")
    (run / "verdicts.jsonl").write_bytes(b"{]\n")
    result = CliRunner().invoke(command, [str(run), "--format", "terminal"])
    assert result.exit_code == 2
    assert "verdicts.jsonl, line 1: damaged" in result.output


@pytest.mark.parametrize(
    ("unread", "reason", "warned"), [(21, "no_choice", True), (20, "no_choice", False), (30, "abstained", False)]
)
def test_a_run_that_says_nothing_about_the_model_says_so(
    tmp_path: Path, unread: int, reason: str, warned: bool
) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(40):
        answer = "It \x1b[31m<b>depends</b>\n on you."
        if number < unread:
            verdict = {"reason": reason}
            writer.item(
                f"marvel/{number}", answer=answer, outcome="unparsed", score=0.0, verdict=verdict, targets=["3"]
            )
        else:
            writer.item(f"marvel/{number}", answer="3", score=1.0)
    run = writer.close()
    text = shown(run, 100, force_terminal=True)
    page = render(open_run(run))
    warning = f"{unread} of 40 answers could not be read, so its results say nothing about the model"
    assert (warning in " ".join(re.sub(r"\x1b\[[\d;]*m", "", text).split())) is warned
    assert ("so its results say nothing about the model" in page) is warned
    assert ("&lt;b&gt;depends&lt;/b&gt; on you.&#34; where &#34;3&#34; is right" in page) is warned
    assert "\x1b[31m<b>" not in text
    # What says nothing has no number.
    assert bool(re.search(r"\x1b\[1m\s*\d+\.\d", text)) is not warned
    assert ('class="value"' in page) is not warned
