"""Notes of a run: made from the fields of earlier versions, and printed for unknown kinds too."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.report_runs import marvel_run
from rich.console import Console

from orchestrator import api
from orchestrator.compare import leaderboard
from orchestrator.compare.explain import explain
from orchestrator.compare.scores import cautions, read
from orchestrator.errors import ConfigError
from orchestrator.report.leaderboard import render as render_leaderboard
from orchestrator.report.page import render
from orchestrator.report.terminal import print_results
from orchestrator.run_folder import notes
from orchestrator.run_folder.reader import open_run

COUNTS = {"samples": 40, "of_samples": 100, "units": 40, "of_units": 100, "metric": "AVR", "level": 0.95}
ENDS = {"value": 0.5, "low": 0.36, "high": 0.64}
STOPPED = {**COUNTS, **ENDS, "until": "width<=30", "stopped": True, "width": 0.28}
SHARE = {**COUNTS, **ENDS, "share": 0.4}


def changed(run: Path, task: dict[str, Any] | None = None, **fields: Any) -> Path:
    """Adds fields to the results of a run, and to those of its task."""
    results = orjson.loads((run / "results.json").read_bytes())
    results["tasks"]["marvel"] |= task or {}
    (run / "results.json").write_bytes(orjson.dumps(results | fields))
    return run


@pytest.mark.parametrize(
    ("fields", "sentence", "brief"),
    [
        (
            {"sequential": STOPPED},
            "marvel stopped early after 40 of 100 samples: width 28.0; the 95% confidence sequence is for AVR over all "
            "100",
            "confidence sequence, stopped after 40 of 100 samples",
        ),
        (
            {"sequential": {**STOPPED, "stopped": False, "samples": 100, "units": 50, "of_units": 50}},
            "marvel asked all 100 samples (50 of 50 groups): width<=30 was not met before",
            "",
        ),
        (
            {"sequential": {**STOPPED, "difference": {"value": 0.1, "low": 0.02, "high": 0.2}, "against": "other"}},
            "marvel stopped early after 40 of 100 samples, a difference of +10.0 points [+2.0, +20.0] against other: "
            "better; the 95% confidence sequence is for AVR over all 100",
            "confidence sequence, stopped after 40 of 100 samples",
        ),
        (
            {"sampled": SHARE},
            "marvel asked a random 40 of 100 samples; AVR of all 100 is estimated as 50.0 [36.0, 64.0] (95% CI)",
            "random 40 of 100 samples, of all 50.0 [36.0, 64.0]",
        ),
        (
            {"sampled": {**SHARE, "with_items": {**ENDS, "low": 0.4, "explained": 0.5, "runs": 2}}},
            "marvel asked a random 40 of 100 samples; AVR of all 100 is estimated as 50.0 [36.0, 64.0] (95% CI), with "
            "the scores of 2 other runs as 50.0 [40.0, 64.0] (50% of the variance explained)",
            "random 40 of 100 samples, of all 50.0 [40.0, 64.0]",
        ),
        (
            {"sampled": {**COUNTS, "no_estimate": "3 items asked have no result"}},
            "marvel asked a random 40 of 100 samples: no estimate of all, since 3 items asked have no result",
            "random 40 of 100 samples",
        ),
    ],
)
def test_a_run_of_before_has_the_notes_of_its_fields(
    fields: dict[str, Any], sentence: str, brief: str, tmp_path: Path
) -> None:
    run = open_run(changed(marvel_run(tmp_path / "run", puzzles=8), fields))
    [note] = run.notes
    assert (note.task, note.sentence, note.brief) == ("marvel", sentence, brief)
    assert run.in_part == [sentence] * bool(brief)
    assert bool(note.comparison) == bool(brief)


def test_cut_outputs_of_before_are_a_note_of_the_run(tmp_path: Path) -> None:
    run = marvel_run(tmp_path / "run", puzzles=8)
    [note] = open_run(changed(run, reasoning={"outputs": 1000, "cut": 3})).notes
    assert (note.kind, note.task, note.brief) == ("cut_outputs", "", "")
    assert note.sentence.startswith("3 of 1,000 outputs were cut at their limit")
    assert not open_run(changed(run, reasoning={"outputs": 1000, "cut": 0})).notes


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    run = changed(marvel_run(tmp_path / "run", puzzles=8), notes=[{"kind": "x"}])
    with pytest.raises(ConfigError, match="json is damaged"):
        open_run(run)


def test_a_note_of_an_unknown_kind_is_printed_everywhere(tmp_path: Path) -> None:
    note = {
        "kind": "every other",
        "task": "marvel",
        "sentence": "marvel asked every other sample",
        "brief": "half of the samples",
        "comparison": {"differs": "parity", "sentence": "odd samples are compared"},
        "value": 0.5,
        "later": "a field of a later version",
    }
    path = changed(marvel_run(tmp_path / "one", puzzles=8), notes=[note, {"kind": "x", "sentence": "it rained"}])
    other = marvel_run(tmp_path / "two", puzzles=8, seed=1)
    run = open_run(path)
    assert [parsed.kind for parsed in run.notes] == ["every other", "x"]
    assert notes.read(run.results)[0].value == 0.5

    console = Console(record=True, width=120, file=io.StringIO())
    print_results(path, console)
    shown = (console.export_text(), render(run), str(api.load(path)))
    for text in shown:
        assert note["sentence"] in text
        assert "it rained" in text
    [caution] = [candidate for candidate in cautions(read(run), read(open_run(other))) if candidate.what == "parity"]
    assert caution.text == "one: marvel asked every other sample; odd samples are compared"
    assert "one: marvel asked every other sample" in explain(path, other).notes
    board = leaderboard.make("suite", [leaderboard.Source("model", "", ["marvel"], path)])
    assert "half of the samples" in render_leaderboard(board, tmp_path)
