"""Facts of items in two runs with tools: means, and the difference over the items of both."""

from __future__ import annotations

from pathlib import Path

from helpers.report_runs import Writer

from orchestrator.compare.facts import changes
from orchestrator.run_folder.reader import open_run


def written(path: Path, calls: list[int], **identity: object):
    writer = Writer(path, tasks=["zoom"], **identity)
    for number, count in enumerate(calls):
        writer.item(f"zoom/{number}", answer="1", score=1.0, verdict={"facts": {"calls": count}} if count else {})
    return open_run(writer.close())


def test_the_difference_is_over_items_that_both_runs_have(tmp_path: Path) -> None:
    tools = {"tools": {"names": ["zoom"]}}
    one = written(tmp_path / "one", [1, 2, 3, 4, 0, 9], **tools)
    other = written(tmp_path / "other", [2, 2, 5, 7, 3, 0], **tools)
    (change,) = changes(one, other)
    assert (change.task, change.fact, change.first, change.second, change.items) == ("zoom", "calls", 2.5, 4.0, 4)
    assert change.low is not None
    assert change.low < 1.5 < change.high
    assert change.words.startswith("zoom: calls 2.5 → 4, +1.5 [")
    assert changes(one, written(tmp_path / "none", [1, 2, 3, 4, 5, 6])) == []
