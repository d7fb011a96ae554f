"""Both readings of a run, side by side in its report."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.commands import orchestrator

from orchestrator.report.readings import readings
from orchestrator.run_folder.reader import open_run


@pytest.mark.parametrize(("answer", "differing"), [("(B)", 0), ("B", 5), ("The answer is (A): no, (B).", 5)])
def test_what_is_read_counts_and_not_what_it_is_called(tmp_path: Path, answer: str, differing: int) -> None:
    """ReForm's rule says an option's text where ours says its letter, and keeps the words that it cannot read."""
    run = tmp_path / "run"
    options = ("--task", "reform_scienceqa", "--synthetic", "--limit", "5", "--model", f"demo:constant:{answer}")
    orchestrator("eval", *options, "--run", str(run), "--quiet")
    output = orchestrator("score", str(run), "--parity")
    assert f"{differing} of 5 samples are scored differently" in output


def test_an_open_answer_is_read_alike_where_it_is_right_in_both(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ("--task", "reform_textvqa", "--synthetic", "--limit", "5", "--model", "demo:constant:nothing, of all")
    orchestrator("eval", *options, "--run", str(run), "--quiet")
    assert "0 of 5 samples are scored differently" in orchestrator("score", str(run), "--parity")


def test_the_report_shows_what_the_reference_reads_otherwise(tmp_path: Path) -> None:
    run = tmp_path / "run"
    answer = "Based on the image, the answer is (A)."
    orchestrator(
        "eval", "--task", "vstar_bench", "--synthetic", "--limit", "4", "--model", f"demo:constant:{answer}",
        "--run", str(run), "--quiet",
    )  # fmt: skip
    assert readings(open_run(run)) is None
    assert "Default and reference scoring" not in (run / "report.html").read_text()
    output = orchestrator("score", str(run), "--parity")
    assert "4 of 4 samples are scored differently" in output
    both = readings(open_run(run))
    assert both
    assert (both.compared.differing, both.compared.items) == (4, 4)
    # The reference takes the first letter of "Based".
    assert {(one.careful, one.parity) for one in both.compared.shown} == {("A", "B")}
    assert [ours.name for ours, _ in both.pairs] == ["accuracy", "choice bias"]
    page = (run / "report.html").read_text()
    assert "Default and reference scoring" in page
    assert "#sample=vstar_bench/0" in page
