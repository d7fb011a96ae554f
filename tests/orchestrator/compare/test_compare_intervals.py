"""Intervals of shares and of paired differences: what they cover, and that shares have the scorer's."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.report_runs import Writer
from hypothesis import strategies as st
from rich.console import Console

from orchestrator.compare import result, scores, statistics, terminal
from orchestrator.run_folder.reader import open_run

groups = st.lists(st.lists(st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1)]), min_size=1, max_size=5), min_size=1)


def run(path: Path, marks: list[float], *, grouped: bool = False) -> Path:
    writer = Writer(path)
    for number, score in enumerate(marks):
        writer.item(f"marvel/{number}", answer="1", score=score, group="0" if grouped else str(number))
    return writer.close()


def test_three_items_lost_are_no_certainty(tmp_path: Path) -> None:
    pair, *_ = statistics.compare(
        *(scores.read(open_run(run(tmp_path / n, [s] * 3))) for n, s in (("a", 1.0), ("b", 0.0)))
    )
    assert pair.p == pytest.approx(0.25)
    assert pair.low == -1
    assert pair.high is not None
    assert pair.high > 0


@pytest.mark.parametrize(("score", "grouped"), [(0.5, False), (1.0, True)])
def test_where_nothing_is_known_of_the_spread_none_is_shown(tmp_path: Path, score: float, grouped: bool) -> None:
    paths = [run(tmp_path / name, [score] * 40, grouped=grouped) for name in "abc"]
    compared = result.compare(paths)
    assert {(pair.low, pair.high) for pairing in compared.pairings for pair in pairing.pairs} == {(None, None)}
    assert {(standing.low, standing.high) for ranking in compared.rankings for standing in ranking.places} == {
        (None, None)
    }
    with (console := Console(width=120)).capture() as captured:
        terminal.show(compared, console, 0)
    assert "+0.0" in captured.get()
    assert "[" not in captured.get()
