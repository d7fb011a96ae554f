"""Selection of items to label, and estimates from labels and all verdicts."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from helpers.label_runs import judged_run, say
from helpers.report_runs import Writer

from lyncean.statistics import intervals as stats
from orchestrator import load
from orchestrator.errors import ConfigError
from orchestrator.report import write_report
from orchestrator.report.labels import draw, results
from orchestrator.report.terminal import print_results
from orchestrator.run.console import Terminal
from orchestrator.run_folder.reader import open_run

GROUP_ALL = {"name": "all", "metric": "group_all"}


def true_score(key: str) -> float:
    """A person's label: the judge misread every tenth answer."""
    number = int(key.partition("/")[2])
    return float(number % 3 > 0) if number % 10 else float(number % 3 == 0)


def label_all(run: Path, count: int, by: str = "ann") -> list[str]:
    keys = [key for unit in draw(open_run(run), "marvel", 0).units[:count] for key in unit.keys]
    for key in keys:
        say(run, [key], true_score(key), by)
    return keys


def test_a_seed_names_one_order_and_more_items_extend_a_sample(tmp_path: Path) -> None:
    small, large = (open_run(judged_run(tmp_path / str(items), items)) for items in (100, 120))
    orders = [
        [unit.keys[0] for unit in draw(run, "marvel", seed).units] for run in (small, small, large) for seed in (0, 1)
    ]
    assert orders[0] == orders[2] != orders[1]
    assert [key for key in orders[4] if key in orders[0]] == orders[0]
    first = {int(key.partition("/")[2]) for key in orders[0][:50]}
    assert 15 < len([number for number in first if number < 50]) < 35


def test_the_estimate_is_that_of_the_drawn_items(tmp_path: Path) -> None:
    run = judged_run(tmp_path / "run", 300, group=5)
    keys = label_all(run, 100)
    (estimate,) = results(open_run(run))
    rest = [f"marvel/{n}" for n in range(300) if f"marvel/{n}" not in keys]
    number = np.array([int(key.partition("/")[2]) for key in [*keys, *rest]])
    human, judge = np.array([true_score(key) for key in keys]), (number % 3 > 0).astype(float)
    assert stats.prediction_powered(human, judge[:100], judge[100:], number // 5) == pytest.approx(
        (estimate.value, estimate.low, estimate.high, estimate.weight)
    )
    assert (estimate.labels, estimate.items, estimate.people) == (100, 300, ["ann"])
    assert (estimate.unclear, estimate.skipped) == (0, 0)
    assert estimate.verdicts == pytest.approx(2 / 3)
    assert estimate.agreement == pytest.approx(1 - np.mean([key.endswith("0") for key in keys]))
    assert estimate.high - estimate.low < estimate.high_labels - estimate.low_labels
    assert estimate.low_verdicts is not None


def test_what_has_no_answer_is_wrong_and_what_nobody_can_tell_is_left_out(tmp_path: Path) -> None:
    run = judged_run(tmp_path / "run", 200, lost=range(0, 200, 10))
    units = draw(open_run(run), "marvel", 0).units[:100]
    shown = [unit.keys[0] for unit in units if unit.answered]
    assert 80 <= len(shown) < 100
    say(run, shown[:2], None)
    say(run, [shown[-1], *shown[3:-1]], 1.0)
    (estimate,) = results(open_run(run))
    assert (estimate.labels, estimate.unclear, estimate.skipped) == (len(shown) - 3, 2, 1)
    lost = [
        unit for unit in units[: units.index(next(u for u in units if u.keys == [shown[-1]])) + 1] if not unit.answered
    ]
    assert estimate.unanswered == len(lost)
    assert estimate.value_labels == pytest.approx(estimate.labels / (estimate.labels + len(lost)))
    assert "2 unclear, 1 skipped" in estimate.note


def test_of_an_all_or_nothing_metric_whole_groups_are_labelled(tmp_path: Path) -> None:
    run = judged_run(tmp_path / "run", 400, group=4, spec=GROUP_ALL)
    drawn = draw(open_run(run), "marvel", 0)
    assert {len(unit.keys) for unit in drawn.units} == {4}
    assert [unit.score for unit in drawn.units] == [0.0] * 100
    for unit in drawn.units[:60]:
        say(run, unit.keys, 1.0)
    say(run, drawn.units[0].keys[:1], 0.0)
    (estimate,) = results(open_run(run))
    assert (estimate.labels, estimate.items, estimate.metric) == (60, 100, "all")
    assert estimate.value_labels == pytest.approx(59 / 60)
    assert estimate.weight == 0, "verdicts that never vary tell nothing"


def test_two_people_are_averaged_and_compared(tmp_path: Path) -> None:
    run = judged_run(tmp_path / "run", 120)
    keys = label_all(run, 60)
    say(run, keys[:20], 1.0, by="bob")
    (estimate,) = results(open_run(run))
    assert estimate.people == ["ann", "bob"]
    ann = np.array([true_score(key) for key in keys])
    assert estimate.people_agreement == pytest.approx(ann[:20].mean())
    assert estimate.value_labels == pytest.approx(np.r_[(ann[:20] + 1) / 2, ann[20:]].mean())


def test_report_and_results_show_it_once_there_are_enough(tmp_path: Path) -> None:
    run = judged_run(tmp_path / "run", 120)

    def shown() -> tuple[str, str, str]:
        out = io.StringIO()
        print_results(run, Terminal(file=out, width=100, markup=False))
        return out.getvalue(), write_report(run).read_text(), str(load(run))

    before = (run / "results.json").read_bytes()
    label_all(run, 49)
    assert not any("labels alone" in output for output in shown())
    label_all(run, 60)
    (estimate,) = load(run).labelled
    for output in shown():
        for row in estimate.rows:
            assert all(word in output for word in row), row
        assert "60 of 120 labelled by ann" in output
    assert (run / "results.json").read_bytes() == before


def test_what_nobody_can_label_is_said(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("vstar/1", answer="7", score=7.0)
    run = open_run(writer.close(complete=False))
    with pytest.raises(ConfigError, match="has the score 7; labels are for scores from 0 to 1"):
        draw(run, "vstar", 0)
    with pytest.raises(ConfigError, match="no item is scored"):
        draw(run, "voila", 0)
