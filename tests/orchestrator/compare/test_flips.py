"""The items that changed between two runs, of which one asked each question several times."""

from __future__ import annotations

from pathlib import Path

from helpers.report_runs import Writer

from orchestrator.compare.flips import flips
from orchestrator.compare.result import compare
from orchestrator.compare.scores import read
from orchestrator.run_folder.reader import open_run


def run(path: Path, scores: dict[str, float]) -> Path:
    writer = Writer(path)
    for key, score in scores.items():
        writer.item(f"marvel/{key}", answer="1" if score else "2", score=score)
    return writer.close()


def test_a_question_asked_several_times_changes_as_its_mean_does(tmp_path: Path) -> None:
    """The first repeat of questions 1 and 3 is like the other run's; their means are not."""
    once = run(tmp_path / "once", {"1": 1.0, "2": 1.0, "3": 0.0, "4": 1.0})
    twice = run(
        tmp_path / "twice",
        {"1": 1.0, "1#1": 0.0, "2": 1.0, "2#1": 1.0, "3": 0.0, "3#1": 1.0, "4": 0.0, "4#1": 0.0},
    )
    both = [read(open_run(path)) for path in (once, twice)]
    changed = flips(*both)
    assert (changed.items, changed.lost, changed.gained) == (4, 2, 1)
    shown = [(flip.first.key, flip.second.key, flip.gained) for flip in changed.read(9)]
    assert shown == [
        ("marvel/1", "marvel/1#1", False),
        ("marvel/4", "marvel/4", False),
        ("marvel/3", "marvel/3#1", True),
    ]
    (pair,) = compare([once, twice]).pairings[0].pairs
    assert (pair.lost, pair.gained) == (changed.lost, changed.gained), "the table says the same"
    back = flips(*reversed(both))
    assert (back.items, back.lost, back.gained) == (4, 1, 2)
    assert next((flip.first.key, flip.second.key) for flip in back.read(9)) == ("marvel/3#1", "marvel/3")
